package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// takeProfiles takes a CPU profile of two seconds of a draining relay, and then heap profiles. The channel returns the
// result once.
func (s *stand) takeProfiles(ctx context.Context, addr, name string) <-chan error {
	done := make(chan error, 1)
	if s.profile == "" {
		done <- nil
		return done
	}
	go func() {
		for !ready(ctx, addr) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		base := filepath.Join(s.profile, name)
		done <- errors.Join(
			download(ctx, "http://"+addr+"/debug/pprof/profile?seconds=2", base+".cpu.pprof"),
			download(ctx, "http://"+addr+"/debug/pprof/heap", base+".heap.pprof"),
			download(ctx, "http://"+addr+"/debug/pprof/allocs", base+".allocs.pprof"))
	}()
	return done
}

func download(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
