//go:build !unix

package config

import "os/exec"

func inGroup(*exec.Cmd) {}
