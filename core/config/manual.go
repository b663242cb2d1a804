package config

import (
	"strings"
	"sync"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/docs"
)

// entry is a row of the manual's tables.
type entry struct{ def, text string }

var (
	headline = pattern.Lazy{Expr: `^## \[+([a-z_.]+)\]+$`}
	link     = pattern.Lazy{Expr: `\[([^\]]+)\]\([^)]+\)`}
)

// manual holds the descriptions of keys in docs/configuration.md, by table and key.
// The table "" is the list of tables.
var manual = sync.OnceValue(func() map[string]map[string]entry {
	out := map[string]map[string]entry{}
	var rows map[string]entry
	for line := range strings.Lines(docs.Configuration) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "## ") {
			rows = nil
			if m := headline.Get().FindStringSubmatch(line); m != nil {
				rows = map[string]entry{}
				out[m[1]] = rows
			} else if line == "## Tables" {
				rows = map[string]entry{}
				out[""] = rows
			}
		}
		cells := strings.Split(line, "|")
		if rows == nil || len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		rows[strings.Trim(cells[1], " `[]")] = entry{
			def:  strings.TrimSpace(cells[2]),
			text: link.Get().ReplaceAllString(strings.TrimSpace(strings.Join(cells[min(3, len(cells)-2):len(cells)-1], "|")), "$1"),
		}
	}
	return out
})
