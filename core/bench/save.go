package bench

import (
	"encoding/json"
	"os"
)

// Save writes a report as indented JSON into a file; an empty path saves nothing.
func Save(path string, report any) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
