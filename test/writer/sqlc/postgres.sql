-- name: AddPurchase :exec
INSERT INTO purchases (id, total) VALUES ($1, $2);
