package main

import (
	"os"

	"hubbub/activitylog"
	"hubbub/activitylog/otlp"
	"hubbub/cmd/internal/program"

	"github.com/rs/zerolog"
)

// exportSpans adds the export of traces if the standard OTEL_ variables ask for it.
func (j *joined) exportSpans(log *activitylog.Options, logger *zerolog.Logger) error {
	s, err := otlp.FromEnv(os.Getenv)
	switch {
	case err != nil:
		return program.Usage("%s", err)
	case s.Endpoint == "":
		return nil
	}
	e := otlp.New(s, logger)
	next := log.OnCommit
	log.OnCommit = func(firstID int64, rows []activitylog.Row) {
		if next != nil {
			next(firstID, rows)
		}
		e.Offer(firstID, rows)
	}
	j.runs = append(j.runs, e.Run)
	return nil
}
