// Package amp is the precision plugin "amp": torch.autocast with GradScaler,
// and the levels O0 to O3 of apex.amp, whose last release with them is 24.01.
// [NewNone] is the plugin "none": float32 throughout.
//
// Without a level it is autocast: listed operations run in the lower type and
// weights stay float32. A level expands to apex's five properties, which are
// printed at start, and single properties can be overridden as in
// amp.initialize; combinations that apex refuses are refused.
//
// It imports core/engine/op, core/sdk and core/tensor. Start with amp.go.
package amp
