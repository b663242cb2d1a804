// Package tempdir creates the temporary directories for plugins' sockets and removes
// them, including those of processes that were killed.
//
// It imports core/base/system alone. Start with tempdir.go.
package tempdir

import _ "github.com/trainctl/trainctl/core/base/system"
