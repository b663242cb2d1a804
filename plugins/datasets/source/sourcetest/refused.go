package sourcetest

// Refused are invalid values of the options that the data sets share, for
// sdktest.DatasetOptions.Refused, with those of more added.
func Refused(more map[string]map[string]any) map[string]map[string]any {
	tables := map[string]map[string]any{}
	for key, value := range map[string]any{
		"mean": []any{0.1, 0.2}, "std": []any{0.0}, "mirrors": []any{"nowhere"}, "fallback": "Generated", "timeout": "soon", "root": "",
	} {
		tables[key] = map[string]any{key: value}
	}
	for key, table := range more {
		tables[key] = table
	}
	return tables
}
