package fault

// A build for Windows stops in package system, with its advice. The import
// makes the compiler stop there before it reaches this package, whose errors
// would hide the advice.
import _ "github.com/trainctl/trainctl/core/base/system"
