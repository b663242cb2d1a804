// Package page makes a web page of runs that core/report/rundir has read: one file without
// references to anything outside it, for a colleague or for print, or the same page served while
// the runs go on.
//
// Tables are written here, by html/template, which escapes whatever the runs contain. Charts are
// drawn in the browser by assets/page.js with uPlot (assets/uplot, under its own licence) from one
// JSON object, [Data]. Every chart has its numbers in a table below it. The page's content
// security policy allows its own scripts alone.
//
// It imports core/base/bytesize, core/base/decimal, core/config, core/report/rundir, core/report/event,
// core/report/timeline and core/sdk. Start with page.go.
package page
