// Package codepages unmaps the pages of the executable that a process needed to start and may never need again.
//
// The kernel maps 64 KiB around every page that is touched, and package initialisation touches most
// of an executable, so that each process of a job has nearly all of it mapped. A page that is needed again is in the
// page cache and comes back without a read. Elsewhere than on Linux nothing happens.
//
// It imports nothing of core but core/base/system. Start with codepages_linux.go.
package codepages

import _ "github.com/trainctl/trainctl/core/base/system"
