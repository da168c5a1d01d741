package main

import (
	"context"
	"errors"
)

type latencyRes struct{}
type startResult struct{}

func (s *stand) latencies(context.Context) (map[string]*latencyRes, error) { return nil, errors.New("later") }
func (s *stand) startTimes(context.Context) (*startResult, error)         { return nil, errors.New("later") }
