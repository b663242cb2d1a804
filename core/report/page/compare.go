package page

import "github.com/trainctl/trainctl/core/report/rundir"

// Comparison is the tables of a page of several runs.
type Comparison struct {
	Runs     []string `json:"runs"`     // their IDs: the columns
	Facts    []Row    `json:"facts"`    // those that at least one run has
	Settings []Row    `json:"settings"` // those that differ
}

// Row is a line of a table with a cell for every run. Cells may have line breaks.
type Row struct {
	Label   string   `json:"label"`
	Cells   []string `json:"cells"`
	Differs bool     `json:"differs"`
}

// Compare makes the tables of a page without the page.
func Compare(runs []*rundir.Run, o Options) Comparison {
	c := Comparison{}
	views := make([]runView, len(runs))
	for i, r := range runs {
		c.Runs = append(c.Runs, r.ID)
		views[i] = newRunView(i, Input{Run: r}, o)
	}
	c.Facts = append([]Row{}, overview(views)...) // a list in JSON, even if it is empty
	c.Settings = append([]Row{}, differences(views)...)
	return c
}
