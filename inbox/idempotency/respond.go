package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// respond is the default of [WithErrorHandler].
func respond(w http.ResponseWriter, r *http.Request, err error) {
	if status := Respond(w, err); status >= http.StatusInternalServerError {
		slog.Default().ErrorContext(r.Context(), "idempotent request failed", "method", r.Method, "path", r.URL.Path, "status", status, "error", err)
	}
}

// Respond answers with the status and problem details of an error of [Store.Middleware], and returns the status. The text of
// errors that are not the client's is not sent.
func Respond(w http.ResponseWriter, err error) int {
	var tooLarge *http.MaxBytesError
	var mismatch *MismatchError
	var unauthorized *UnauthorizedError
	status, detail := http.StatusInternalServerError, ""
	switch {
	case errors.As(err, &unauthorized):
		status, detail = http.StatusUnauthorized, unauthorized.Error()
		w.Header().Set("WWW-Authenticate", unauthorized.Challenge)
	case errors.Is(err, ErrScope):
		status, detail = http.StatusForbidden, ErrScope.Error()
	case errors.Is(err, ErrInvalidKey):
		status, detail = http.StatusBadRequest, err.Error()
	case errors.As(err, &tooLarge):
		status, detail = http.StatusRequestEntityTooLarge, fmt.Sprintf("the request's body has more than %d bytes: send less", tooLarge.Limit)
	case errors.Is(err, ErrReadBody):
		status, detail = http.StatusBadRequest, ErrReadBody.Error()
	case errors.Is(err, ErrInProgress):
		status, detail = http.StatusConflict, ErrInProgress.Error()
		w.Header().Set("Retry-After", "1")
	case errors.As(err, &mismatch):
		status, detail = http.StatusUnprocessableEntity, err.Error()
	case errors.Is(err, inbox.ErrDatabase), writer.Retryable(err):
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{http.StatusText(status), status, detail})
	return status
}
