// Package faultfs is an in-memory file system with POSIX semantics and the
// failures of disks, for tests of code that must survive a crash.
//
// It counts operations and can make any of them fail, fill the disk, or crash the
// process. After a crash, Kill returns the file system as the kernel would keep it,
// and PowerLoss as the disk may keep it: without unsynced data.
//
// It imports nothing else of this module. Start with fs.go.
package faultfs
