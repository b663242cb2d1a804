package usererr

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one mistake that a user has to fix.
type Problem struct {
	Key    string // dotted path as in the TOML, "model.layers[2].kernel_size"; empty for the whole file
	Detail string // what is wrong, with the value seen
	Help   string // what to write instead; may be empty
}

func (p Problem) String() string {
	s := p.Detail
	if p.Key != "" {
		s = p.Key + ": " + s
	}
	if p.Help != "" {
		s += " (" + p.Help + ")"
	}
	return s
}

// List collects problems; its zero value is ready to use.
type List []Problem

// Addf appends a problem for a key.
func (l *List) Addf(key, help, format string, args ...any) {
	*l = append(*l, Problem{Key: key, Help: help, Detail: fmt.Sprintf(format, args...)})
}

// Errorf is the error of a single problem of a key.
func Errorf(key, help, format string, args ...any) error {
	var l List
	l.Addf(key, help, format, args...)
	return l.Err()
}

// Under appends problems of a nested table, prefixing their keys.
func (l *List) Under(prefix string, inner List) {
	for _, p := range inner {
		switch {
		case prefix == "":
		case p.Key == "":
			p.Key = prefix
		case strings.HasPrefix(p.Key, "["):
			p.Key = prefix + p.Key
		default:
			p.Key = prefix + "." + p.Key
		}
		*l = append(*l, p)
	}
}

// Under prefixes the keys of the problems in an error, like the method. It returns
// other errors unchanged.
func Under(prefix string, err error) error {
	inner := Problems(err)
	if inner == nil {
		return err
	}
	var l List
	l.Under(prefix, inner)
	return l.Err()
}

// Err is nil for an empty list and an *Error otherwise.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return &Error{Problems: l}
}

// Error carries problems through an error return; get them back with errors.As.
type Error struct{ Problems List }

func (e *Error) Error() string {
	s := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		s[i] = p.String()
	}
	return strings.Join(s, "; ")
}

// Problems extracts the list from an error made by Err, nil otherwise.
func Problems(err error) List {
	var e *Error
	if errors.As(err, &e) {
		return e.Problems
	}
	return nil
}
