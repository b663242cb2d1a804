package main

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/config"
)

// Every snippet about plugins is Go that parses, TOML that decodes, proto, or a
// command line of commands and flags that exist.
func TestSnippetsAboutPlugins(t *testing.T) {
	for _, file := range []string{"../../docs/plugins.md", "../../docs/protocol.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split(string(text), "```") {
			if i%2 == 0 {
				continue
			}
			language, body, _ := strings.Cut(part, "\n")
			checkSnippet(t, file, language, body)
		}
	}
}

func checkSnippet(t *testing.T, file, language, body string) {
	t.Helper()
	switch language {
	case "go":
		if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, parser.AllErrors); err != nil {
			t.Errorf("%s: %v in\n%s", file, err, body)
		}
	case "toml":
		if err := config.CheckSyntax(body); err != nil {
			t.Errorf("%s: %v in\n%s", file, err, body)
		}
	case "proto":
		if !strings.HasPrefix(body, "syntax = \"proto3\";") || strings.Count(body, "{") != strings.Count(body, "}") {
			t.Errorf("%s: proto\n%s", file, body)
		}
	case "":
		for line := range strings.Lines(body) {
			if words, ok := strings.CutPrefix(line, "$ trainctl "); ok {
				checkCommandLine(t, file, strings.Fields(words))
			}
		}
	default:
		t.Errorf("%s: a snippet in %q, which nothing checks", file, language)
	}
}

func checkCommandLine(t *testing.T, file string, words []string) {
	t.Helper()
	cmd, rest, err := newRoot(&services{}).Find(words)
	if err != nil || !cmd.Runnable() {
		t.Errorf("%s: trainctl %v: %v", file, words, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: trainctl %v: %v", file, words, err)
	}
}
