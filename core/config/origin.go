package config

import "fmt"

// Origin is where a value came from; its zero value is the default.
type Origin struct {
	File string // file as given, "" for other origins
	Line int
	Env  string // variable that set it
	Flag string // flag that set it
}

func (o Origin) String() string {
	switch {
	case o.Flag != "":
		return "flag " + o.Flag
	case o.Env != "":
		return "env " + o.Env
	case o.File != "":
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return "default"
}

// Origin returns where the value at a path came from: "optimizer.lr",
// "model.layers[0].bias", "dataset.options.root".
func (c *Config) Origin(path string) Origin {
	pl, ok := c.places[path]
	if !ok {
		return Origin{}
	}
	if pl.src.flag != "" {
		return Origin{Flag: pl.src.flag}
	}
	if pl.src.env != "" {
		return Origin{Env: pl.src.env}
	}
	line, _ := pl.src.position(pl.key.start)
	return Origin{File: pl.src.name, Line: line}
}
