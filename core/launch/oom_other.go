//go:build !linux

package launch

func oomKills() int { return -1 }

func oomEvidence(int) string { return "" }
