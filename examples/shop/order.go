package main

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Types of aggregates and events, and an order's statuses.
const (
	aggregateOrder = "Order"
	orderPlaced    = "OrderPlaced"
	orderCancelled = "OrderCancelled"

	statusPlaced    = "placed"
	statusCancelled = "cancelled"
)

// order is an aggregate: its methods change it and raise the events that say so. It knows neither SQL nor Kafka.
type order struct {
	writer.Raised `json:"-"`

	ID       string `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	Status   string `json:"status"`
}

var errInvalidOrder = errors.New("an order needs an item, and a quantity from 1 to 1000")

// placeOrder returns a new order.
func placeOrder(customer, item string, quantity int) (*order, error) {
	if item == "" || quantity < 1 || quantity > 1000 {
		return nil, errInvalidOrder
	}
	o := &order{ID: uuid.NewString(), Customer: customer, Item: item, Quantity: quantity, Status: statusPlaced}
	err := o.raise(orderPlaced)
	return o, err
}

// cancel does nothing to an order that is cancelled already.
func (o *order) cancel() error {
	if o.Status == statusCancelled {
		return nil
	}
	o.Status = statusCancelled
	return o.raise(orderCancelled)
}

// raise raises an event that holds the order as it is now.
func (o *order) raise(typ string) error {
	e, err := writer.JSON(aggregateOrder, o.ID, typ, o)
	if err != nil {
		return fmt.Errorf("raise %s: %w", typ, err)
	}
	o.Raise(e)
	return nil
}
