package host

// executablePath names the verified file by its descriptor in the child, the
// second of its extra files, so that the path is not looked up again.
func executablePath(*program) string { return "/proc/self/fd/4" }
