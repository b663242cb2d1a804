// Package faultfs is a file system in memory that behaves as POSIX says and
// fails as disks do, for tests of anything that must survive a crash.
//
// It counts every operation and can let any one fail, fill the disk, or crash
// the process there. After a crash, Kill gives the file system as the kernel
// would keep it, and PowerLoss as the disk may: without what was not synced.
//
// It imports nothing else of this module. Start with fs.go.
package faultfs
