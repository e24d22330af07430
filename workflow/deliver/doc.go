// Package deliver has the built-in workflows that bring messages of topics to where they are for: [Webhook] posts them
// to a URL, and [Session] gives them to a session. Give them to an engine, beside the other definitions of the program:
//
//	engine := flow.NewEngine(db.Workflows(), nil, deliver.Webhook(nil), deliver.Session(bot), onboard)
//
// A subscription with a URL or a session starts runs of them: see workflow.Publish. So a message is delivered at least
// once, also if processes die. The receiver tells a message that comes again by its id.
//
// # Webhooks
//
// The body is the message as JSON. It comes by POST, in the scheme of Standard Webhooks:
//
//	webhook-id         the id of the message, the same in each attempt and for each subscription
//	webhook-timestamp  when this attempt was made, in seconds since 1970
//	webhook-signature  v1, and the HMAC-SHA256 of id.timestamp.body in base64; one for each key, with a space between
//	webhook-topic      the topic
//
// Any answer of 2xx ends the run. After 410 the run has failed, and its subscription is removed. After 408, 425, 429,
// any 5xx and no answer the message is posted again, not before the time that Retry-After names. After any other answer
// the run has failed. So it has after a redirect, which is not followed.
package deliver
