package app

import "runtime/debug"

// module is the path of this module, without what a major version adds.
const module = "github.com/trainctl/trainctl"

// Version returns this module's version, with the revision of a build from a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if dep.Path == module { // this is another program
			return dep.Version
		}
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += "-" + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return v
}
