#!/usr/bin/env bash
# Tests the pages of trainctl report and trainctl ui in a real browser, with axe-core if npm can
# download it or TRAINCTL_AXE names its axe.min.js.
set -euo pipefail
cd "$(dirname "$0")"
axe=4.14.1
if [ -z "${TRAINCTL_AXE:-}" ] && command -v npm >/dev/null; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	if (cd "$dir" && npm pack --silent "axe-core@$axe" >/dev/null && tar xzf "axe-core-$axe.tgz"); then
		export TRAINCTL_AXE=$dir/package/axe.min.js
	else
		echo "axe-core was not downloaded: accessibility is not checked" >&2
	fi
fi
go test -mod=mod -count=1 ./... "$@" # dependencies of trainctl may have changed since its go.mod was written
