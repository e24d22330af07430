package bot

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

// A Shop knows orders and customers.
type Shop interface {
	// Order returns nil if there is no such order.
	Order(ctx context.Context, id string) (*Order, error)
	// CustomerOf returns the customer of an order, nil if there is no such order.
	CustomerOf(ctx context.Context, order string) (*Customer, error)
}

// An Order describes a purchase.
type Order struct {
	ID     string `json:"id"`
	What   string `json:"what"`
	Cents  int    `json:"cents"`
	Status string `json:"status"` // "processing", "shipped" or "closed"
}

// Refundable reports whether the shop still takes the order back.
func (o Order) Refundable() bool { return o.Status != "closed" }

// A Customer is who has bought it.
type Customer struct {
	Name string `json:"name"`
	Gold bool   `json:"gold"`
}

// orderID is the form of the number of an order. No two of them mean the same order.
var orderID = regexp.MustCompile(`^[A-Z]-[1-9]\d{0,8}$`)

// DemoShop is a shop with some orders that the demonstration speaks of, and as many others as are asked for: every
// number from B-1 on is an order below the limit for approval.
type DemoShop struct{}

var orders = map[string]Order{
	"A-1007": {What: "a lamp", Cents: 49_90, Status: "processing"},
	"A-1013": {What: "two books", Cents: 31_00, Status: "shipped"},
	"A-1042": {What: "an armchair", Cents: 250_00, Status: "processing"},
	"A-1050": {What: "a desk", Cents: 420_00, Status: "shipped"},
	"A-1099": {What: "a rug of last year", Cents: 80_00, Status: "closed"},
}

// Order implements Shop.
func (DemoShop) Order(_ context.Context, id string) (*Order, error) {
	if o, ok := orders[id]; ok {
		o.ID = id
		return &o, nil
	}
	if orderID.MatchString(id) && id[0] == 'B' {
		n, err := strconv.Atoi(id[2:])
		if err == nil && n > 0 {
			return &Order{ID: id, What: "a parcel", Cents: 5_00 + n%95_00, Status: "shipped"}, nil
		}
	}
	return nil, nil
}

// CustomerOf implements Shop.
func (s DemoShop) CustomerOf(ctx context.Context, order string) (*Customer, error) {
	o, err := s.Order(ctx, order)
	if o == nil || err != nil {
		return nil, err
	}
	names := []string{"Ada", "Grace", "Barbara", "Edsger", "Tony"}
	n, err := strconv.Atoi(o.ID[2:])
	if err != nil {
		return nil, fmt.Errorf("order %s: %w", o.ID, err)
	}
	return &Customer{Name: names[n%len(names)], Gold: n%2 == 0}, nil
}
