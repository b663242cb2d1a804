package checkpoint

// Mapping says which name of a file fills which name of a model.
type Mapping struct {
	From map[string]string // name in the model → name in the file
	Note string            // "stripped \"module.\" from 8 of 8 keys"; empty: the names were equal
}

// MatchKeys finds the mapping that differs from the names only by "module.".
func MatchKeys(want, have []string) (Mapping, error) { return Mapping{}, errTodo }
