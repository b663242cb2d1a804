package cli

import (
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/base/lossy"
)

// Colorful reports whether to write colours to a stream: NO_COLOR disables them,
// CLICOLOR_FORCE enables them, else they are enabled on a terminal.
func Colorful(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if f := os.Getenv("CLICOLOR_FORCE"); f != "" && f != "0" {
		return true
	}
	return Interactive(w)
}

// Interactive reports whether a stream is a terminal that a person watches.
func Interactive(w io.Writer) bool {
	if l, ok := w.(*lossy.Writer); ok {
		w = l.Output()
	}
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == "" && term.IsTerminal(int(f.Fd()))
}

// Size is the columns and rows of the terminal that a stream is, else those of a usual one.
func Size(w io.Writer) (columns, rows int) {
	if f, ok := w.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

func errorWord(w io.Writer) string {
	if Colorful(w) {
		return "\x1b[1;31merror\x1b[0m"
	}
	return "error"
}

// WriteJSON writes v indented, without escapes of HTML.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// JSONFlag adds --json to a command. The returned function prints the command's result:
// by text, or with --json as JSON, by the result's own method JSON if it has one.
func JSONFlag(cmd *cobra.Command, what string) func(v any, text func(io.Writer) error) error {
	asJSON := cmd.Flags().Bool("json", false, "print "+what)
	return func(v any, text func(io.Writer) error) error {
		w := cmd.OutOrStdout()
		if !*asJSON {
			return text(w)
		}
		if own, ok := v.(interface{ JSON(io.Writer) error }); ok {
			return own.JSON(w)
		}
		return WriteJSON(w, v)
	}
}
