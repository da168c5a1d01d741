-- name: AddPurchase :exec
INSERT INTO purchases (id, total) VALUES (?, ?);
