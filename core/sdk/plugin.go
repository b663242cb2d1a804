package sdk

import "fmt"

// Plugin holds the constructors of the kinds that a binary serves. Each is called
// once per process and must be cheap: do set-up in Open or Policy.
type Plugin struct {
	Backend   func() Backend
	Dataset   func() Dataset
	Precision func() Precision
	Observer  func() Observer
	Layer     func() Layer
}

// Kinds returns the kinds that the plugin serves.
func (p Plugin) Kinds() []Kind {
	var k []Kind
	if p.Backend != nil {
		k = append(k, KindBackend)
	}
	if p.Dataset != nil {
		k = append(k, KindDataset)
	}
	if p.Precision != nil {
		k = append(k, KindPrecision)
	}
	if p.Observer != nil {
		k = append(k, KindObserver)
	}
	if p.Layer != nil {
		k = append(k, KindLayer)
	}
	return k
}

// Info returns the Info of an instance of the given kind, without serving it.
func (p Plugin) Info(kind Kind) (Info, error) {
	switch {
	case kind == KindBackend && p.Backend != nil:
		return p.Backend().Info(), nil
	case kind == KindDataset && p.Dataset != nil:
		return p.Dataset().Info(), nil
	case kind == KindPrecision && p.Precision != nil:
		return p.Precision().Info(), nil
	case kind == KindObserver && p.Observer != nil:
		return p.Observer().Info(), nil
	case kind == KindLayer && p.Layer != nil:
		return p.Layer().Info(), nil
	}
	return Info{}, fmt.Errorf("this plugin is not %s; it serves %v", kind.Phrase(), p.Kinds())
}
