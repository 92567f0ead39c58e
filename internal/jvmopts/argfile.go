package jvmopts

import "bytes"

// argFileWords cuts the text of an @file as args.c does (nextToken): words end
// at white space; single and double quotes keep it but end with the line;
// within quotes a backslash escapes, at the end of a line it continues the
// word on the next; # outside quotes starts a comment, even within a word. The
// word ends there, unless the comment follows a quote; before JDK 26 what
// stands after its last quote is lost. What is left becomes part of the next
// word.
func argFileWords(text string, release Release) []string {
	s := argFile{commentEnds: release.since(26)}
	for len(text) > 0 {
		chunk := text[:min(len(text), argFileBuffer)]
		text = text[len(chunk):]
		for i := range len(chunk) {
			s.next(chunk[i])
		}
		if len(s.segment) > 0 {
			s.keep()
		}
	}
	if (s.state == inToken || s.state == inQuote) && s.kept {
		s.end()
	}
	return s.words
}

// argFileBuffer is how much args.c reads at once. At its end it puts the word
// so far aside, where a comment does not lose it.
const argFileBuffer = 4096

type argFileState int

const (
	findNext argFileState = iota
	inToken
	inQuote
	inEscape
	inComment
	skipLead // the white space of a continuation line
)

type argFile struct {
	// commentEnds: a comment ends the word that it follows.
	commentEnds bool

	state argFileState
	quote byte
	// parts is the word so far up to the last quote or escape, kept tells
	// whether anything was put there; segment is what follows.
	parts, segment []byte
	kept           bool
	words          []string
}

func (s *argFile) next(c byte) {
	switch s.state {
	case findNext, skipLead:
		if isArgFileSpace(c) || c == '\n' || c == '\r' {
			return
		}
		if s.state == findNext {
			s.state = inToken
		} else {
			s.state = inQuote
		}
	case inEscape:
		s.escaped(c)
		return
	case inComment:
		if c == '\n' || c == '\r' {
			s.state = findNext
		}
		return
	}
	s.inWord(c)
}

func (s *argFile) inWord(c byte) {
	quoted := s.state == inQuote
	switch {
	case c == '\n' || c == '\r' || !quoted && isArgFileSpace(c):
		s.end()
	case c == '#' && !quoted:
		if s.commentEnds && len(s.segment) > 0 {
			s.end()
		}
		s.state, s.segment = inComment, s.segment[:0]
	case c == '\\' && quoted:
		s.keep()
		s.state = inEscape
	case c == '"' && (!quoted || s.quote == c), c == '\'' && (!quoted || s.quote == c):
		if len(s.segment) > 0 {
			s.keep()
		}
		s.quote, s.state = c, inQuote
		if quoted {
			s.state = inToken
		}
	default:
		s.segment = append(s.segment, c)
	}
}

func (s *argFile) escaped(c byte) {
	s.state = inQuote
	switch c {
	case '\n', '\r':
		s.state = skipLead
		return
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'f':
		c = '\f'
	}
	s.segment = append(s.segment, c)
	s.keep()
}

// keep puts the segment to the parts: a C string, which ends at a zero byte.
func (s *argFile) keep() {
	s.parts, s.segment, s.kept = append(s.parts, cString(s.segment)...), s.segment[:0], true
}

func (s *argFile) end() {
	s.keep()
	s.words = append(s.words, string(s.parts))
	s.parts, s.kept, s.state = s.parts[:0], false, findNext
}

func isArgFileSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

func cString(b []byte) []byte {
	before, _, _ := bytes.Cut(b, []byte{0})
	return before
}
