package runjava

import (
	"strconv"
	"strings"
)

// addProxies turns the variables for proxies into system properties (java.net,
// "Networking Properties").
func (p *planner) addProxies() {
	p.addProxy("https")
	p.addProxy("http")
	name, list := p.eitherCase("no_proxy")
	hosts := nonProxyHosts(list)
	if key := "-Dhttp.nonProxyHosts="; hosts != "" && !p.has(key) {
		p.add(Option{key + hosts, name})
	}
}

// eitherCase is a variable by its name in small letters, else in capitals.
func (p *planner) eitherCase(name string) (found, value string) {
	if value = p.vars.get(name); value != "" {
		return name, value
	}
	found = strings.ToUpper(name)
	return found, p.vars.get(found)
}

func (p *planner) addProxy(transport string) {
	name, url := p.eitherCase(transport + "_proxy")
	host, port, credentials, ok := parseProxy(url)
	if credentials {
		p.warn("Proxy URL for " + transport + " contains authentication credentials, these are not supported by java")
	}
	if !ok {
		if url != "" { // the value may hold a password
			p.warn(name + " is ignored: it is not of the form http://host:port")
		}
		return
	}
	if key := "-D" + transport + ".proxyHost="; !p.has(key) {
		p.add(Option{key + host, name})
		if key := "-D" + transport + ".proxyPort="; port != "" && !p.has(key) {
			p.add(Option{key + port, name})
		}
	}
}

// parseProxy takes [scheme://][user[:password]@]host[:port][/path][?query]
// apart. A password may hold what a URL forbids there: it ends at the last @.
func parseProxy(url string) (host, port string, credentials, ok bool) {
	url = strings.TrimSpace(url)
	if _, rest, found := strings.Cut(url, "://"); found {
		url = rest
	}
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		credentials = strings.Trim(url[:at], ":") != ""
		url = url[at+1:]
	}
	if end := strings.IndexAny(url, "/?"); end >= 0 {
		url = url[:end]
	}
	host = url
	end := strings.IndexByte(url, ']') // of an IPv6 address
	if colon := strings.IndexByte(url[end+1:], ':'); colon >= 0 {
		host, port = url[:end+1+colon], url[end+2+colon:]
	}
	if port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", "", credentials, false
		}
	}
	if !isHost(host) {
		return "", "", credentials, false
	}
	return host, port, credentials, true
}

// isHost says whether a text can be a host's name or address.
func isHost(s string) bool {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && inner != "" && strings.Trim(inner, "0123456789abcdefABCDEF:.%") == ""
	}
	for _, c := range []byte(s) {
		alphanumeric := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !alphanumeric && c < 0x80 && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// nonProxyHosts writes a NO_PROXY list as Java wants it: separated by |, and a
// domain with a star, *.example.com for .example.com.
func nonProxyHosts(list string) string {
	hosts := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '|' || r == ' ' || r >= '\t' && r <= '\r' })
	for i, h := range hosts {
		if strings.HasPrefix(h, ".") {
			hosts[i] = "*" + h
		}
	}
	return strings.Join(hosts, "|")
}
