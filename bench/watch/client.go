package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// As in core/report/ui/assets/live.js.
const (
	pause     = 900 * time.Millisecond
	slowPause = 10 * time.Second
)

// server is a running trainctl ui.
type server struct {
	cmd   *exec.Cmd
	base  *url.URL
	token string
}

// serve starts trainctl ui for a folder of runs.
func serve(ctx context.Context, trainctl, dir string) (*server, error) {
	cmd := exec.CommandContext(ctx, trainctl, "ui", dir)
	cmd.Cancel = func() error { return nil } // stop ends it
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		s.base, err = url.Parse(strings.TrimSpace(line))
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("trainctl ui printed %q: %w", line, err)
	}
	s.token = s.base.Query().Get("token")
	return s, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // it was killed
}

// get requests a path about a run.
func (s *server) get(ctx context.Context, path, id, have string) (*http.Response, error) {
	u := *s.base
	u.Path, u.RawQuery = path, url.Values{"id": {id}, "have": {have}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return resp, nil
}

// read is get with the whole answer, which is added to the cost.
func (s *server) read(ctx context.Context, path, id, have string, cost *watched) ([]byte, error) {
	resp, err := s.get(ctx, path, id, have)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	cost.Bytes += int64(len(b))
	return b, err
}

// follow does what the page does until ctx is cancelled, beginning when the run has a directory.
func (s *server) follow(ctx context.Context, id string, cost *watched) error {
	var began time.Time
	defer func() { cost.Seconds = time.Since(began).Seconds() }()
	for {
		_, err := s.read(ctx, "/runs", id, "", cost)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the run was never seen"), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	began = time.Now()
	changed, err := s.changes(ctx, id)
	if err != nil {
		return err
	}
	have, texts := "", began
	for range changed {
		if time.Since(texts) >= slowPause {
			texts = time.Now()
			if _, err := s.read(ctx, "/text", id, "", cost); err != nil && ctx.Err() == nil {
				return err
			}
		}
		b, err := s.read(ctx, "/data", id, have, cost)
		var data struct{ Have json.RawMessage }
		if err == nil {
			err = json.Unmarshal(b, &data)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		have = string(data.Have)
		cost.Updates++
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// changes receives when the run has changed since the last time, until ctx is cancelled.
func (s *server) changes(ctx context.Context, id string) (<-chan struct{}, error) {
	resp, err := s.get(ctx, "/events", id, "")
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer resp.Body.Close()
		defer close(changed)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if lines.Text() != "event: changed" {
				continue
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed, nil
}
