package elastic

import (
	"os"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m.Run)) }
