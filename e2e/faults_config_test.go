package e2e

import "testing"

func TestRunEndsWell(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t).expect(t, 0)
	s := p.summary(t, 1)
	if s.Status != "ok" || s.Steps != 8 || len(s.ParamsSHA256) != 2 || s.ParamsSHA256[0] != s.ParamsSHA256[1] {
		t.Errorf("summary %+v", s)
	}
}
