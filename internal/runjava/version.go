package runjava

import "strconv"

// setMajor finds the feature release that options are chosen by and exports
// JAVA_MAJOR_VERSION: the user's word, else that of the java that will run,
// else JAVA_VERSION.
func (p *planner) setMajor() {
	const name = "JAVA_MAJOR_VERSION"
	given := p.vars.get(name)
	var ok bool
	if p.major, ok = parseMajor(given); ok {
		return
	}
	if given != "" {
		p.warn(name + "=" + shortened(given) + " is ignored: give a number, such as 17")
	}
	if p.major = p.in.Major(p.vars.env); p.major <= 0 {
		p.major, _ = parseMajor(p.vars.get("JAVA_VERSION"))
	}
	text := ""
	if p.major > 0 {
		text = strconv.Itoa(p.major)
	}
	p.vars.export(name, text)
}

// parseMajor reads the feature release from a version: 8 from 1.8.0_292 and
// 8u292, 17 from 17.0.1 and jdk-17.0.1+12, which Temurin's images have as
// JAVA_VERSION.
func parseMajor(version string) (int, bool) {
	n, rest := leadingNumber(version)
	if n == 1 && len(rest) > 1 && rest[0] == '.' && rest[1] >= '0' && rest[1] <= '9' {
		n, _ = leadingNumber(rest)
	}
	return n, n >= 5 && n < 1000
}

// leadingNumber is the first number in a text, and what follows it.
func leadingNumber(s string) (int, string) {
	isDigit := func(i int) bool { return s[i] >= '0' && s[i] <= '9' }
	start := 0
	for start < len(s) && !isDigit(start) {
		start++
	}
	end := start
	for end < len(s) && isDigit(end) {
		end++
	}
	n, err := strconv.Atoi(s[start:end])
	if err != nil {
		return 0, ""
	}
	return n, s[end:]
}
