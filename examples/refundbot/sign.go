package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/turnhttp"
)

// A signer knows who sends a request, and what that person may do. It is to be copied, except for signIn: a real
// service takes a password there, or what an OpenID provider says of the person. Then it has accounts in place of the
// word, keeps the key where it keeps its other secrets, and changes it.
type signer struct {
	key  []byte // of the signatures: all processes have the same
	word string // with which the desk signs in
}

// A role says what a person may do.
type role string

const (
	roleCustomer role = "customer" // talks in sessions of their own
	roleDesk     role = "desk"     // does what the page has, in each session
)

// A person has signed in.
type person struct {
	Name  string    `json:"name"`
	Role  role      `json:"role"`
	Until time.Time `json:"until"`
}

// signedFor is how long a cookie is good. A cookie that was copied is good for that long too: signing out only removes
// it from the browser.
const signedFor = 12 * time.Hour

// called is what people may call themselves. No name has "-": it ends the name in the names of sessions.
var called = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// errNobody says that no cookie names a person.
var errNobody = errors.New("not signed in")

// routes adds the routes by which people sign in and out.
func (s *signer) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /app/sign-in", s.signIn)
	mux.HandleFunc("POST /app/sign-out", s.signOut)
	mux.HandleFunc("GET /app/me", s.me)
}

// signIn takes a name and a role. The desk needs the word. Nobody can choose the name of another customer, nor one of
// the desk: see customer.
func (s *signer) signIn(w http.ResponseWriter, r *http.Request) {
	var as struct {
		Name string `json:"name"`
		Role role   `json:"role"`
		Word string `json:"word"`
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	if err := turnhttp.ReadJSON(r, &as); err != nil {
		turnhttp.Problem(w, r, err)
		return
	}
	p := signedIn(as.Name, as.Role)
	switch {
	case !called.MatchString(as.Name):
		problem(w, http.StatusBadRequest, "bad-request", "A name has 1 to 20 of the letters a to z and the digits.")
		return
	case as.Role == roleCustomer:
		p = customer(as.Name)
	case as.Role != roleDesk:
		problem(w, http.StatusBadRequest, "bad-request", "The role is customer or desk.")
		return
	case !sameWord(as.Word, s.word):
		problem(w, http.StatusForbidden, "denied", "This is not the word of the desk.")
		return
	}
	http.SetCookie(w, s.cookie(r, p))
	answer(w, http.StatusOK, p)
}

// signOut ends the newest role. A customer who has signed in as the desk too is a customer again.
func (s *signer) signOut(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	if err := turnhttp.ReadJSON(r, &struct{}{}); err != nil {
		turnhttp.Problem(w, r, err)
		return
	}
	if p, err := s.who(r); err == nil {
		c := s.cookie(r, p)
		c.Value, c.MaxAge = "", -1
		http.SetCookie(w, c)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *signer) me(w http.ResponseWriter, r *http.Request) {
	p, err := s.who(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	answer(w, http.StatusOK, p)
}

// cookieOf names the cookie of a role. Each role has its own, so that the desk can go back to being a customer.
func cookieOf(as role) string { return "refundbot-" + string(as) }

// cookie says who p is. Scripts cannot read it, and no page of another site sends it.
func (s *signer) cookie(r *http.Request, p person) *http.Cookie {
	return &http.Cookie{
		Name: cookieOf(p.Role), Value: s.sign(p), Path: "/", MaxAge: int(signedFor.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

// who returns the person whom the cookies of a request name.
func (s *signer) who(r *http.Request) (person, error) {
	for _, as := range []role{roleDesk, roleCustomer} {
		c, err := r.Cookie(cookieOf(as))
		if err != nil {
			continue
		}
		if p, err := s.read(c.Value); err == nil && p.Role == as {
			return p, nil
		}
	}
	return person{}, errNobody
}

// sign returns p with its signature.
func (s *signer) sign(p person) string {
	doc, err := json.Marshal(p)
	if err != nil {
		panic(err) // a time after the year 9999
	}
	text := base64.RawURLEncoding.EncodeToString(doc)
	return text + "." + base64.RawURLEncoding.EncodeToString(s.sum(text))
}

// read returns the person in a text that sign has made with the same key, and that is still good.
func (s *signer) read(signed string) (p person, err error) {
	text, signature, _ := strings.Cut(signed, ".")
	sum, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(sum, s.sum(text)) {
		return p, errNobody
	}
	doc, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(doc, &p) != nil || !time.Now().Before(p.Until) {
		return person{}, errNobody
	}
	return p, nil
}

func (s *signer) sum(text string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// sameWord takes the same time for each word.
func sameWord(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// authorize is turnhttp.Options.Authorize. A customer talks in sessions of their own, whose names begin with the name
// of the customer and "-", and decides nothing: else they would say that their own refund was not paid.
func (s *signer) authorize(r *http.Request, session string, action turnhttp.Action) (turnhttp.Actor, error) {
	p, err := s.who(r)
	if err != nil {
		return "", err
	}
	desk := p.Role == roleDesk
	switch action {
	case turnhttp.ActionRead, turnhttp.ActionTurn, turnhttp.ActionFollow, turnhttp.ActionStop:
		if desk || strings.HasPrefix(session, p.Name+"-") {
			return turnhttp.Actor(p.Name), nil
		}
	case turnhttp.ActionResume, turnhttp.ActionAnswer, turnhttp.ActionResolve, turnhttp.ActionAbandon,
		turnhttp.ActionBranch, turnhttp.ActionDelete:
		if desk {
			return turnhttp.Actor(p.Name), nil
		}
	}
	return "", turnhttp.ErrDenied
}

// deskOnly is authorize for the sessions of the desk: no name of theirs makes one a customer's. Nobody talks there.
func (s *signer) deskOnly(r *http.Request, session string, action turnhttp.Action) (turnhttp.Actor, error) {
	p, err := s.who(r)
	switch {
	case err != nil:
		return "", err
	case p.Role != roleDesk, action == turnhttp.ActionTurn, action == turnhttp.ActionBranch:
		return "", turnhttp.ErrDenied
	}
	return s.authorize(r, session, action)
}

// mine serves the sessions of whoever asks, without their name before that of the session. It shows no questions and no
// effects: those are for the desk.
func (s *signer) mine(all http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := s.who(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		front, session, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/mine"), "/sessions/")
		if strings.HasSuffix(session, "/questions") || strings.HasSuffix(session, "/effects") {
			refuse(w, r, turnhttp.ErrDenied)
			return
		}
		to, err := url.Parse(front + "/sessions/" + p.Name + "-" + session)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		to.RawQuery = r.URL.RawQuery
		r = r.Clone(r.Context())
		r.URL = to
		all.ServeHTTP(w, r)
	})
}

// welcome signs people in as a guest who open the page, unless they are somebody.
func (s *signer) welcome(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		talks := r.Method == http.MethodGet && (r.URL.Path == "/" || r.URL.Path == "/concierge/")
		if _, err := s.who(r); err != nil && talks {
			http.SetCookie(w, s.cookie(r, customer("guest")))
		}
		page.ServeHTTP(w, r)
	})
}

// customer returns a new customer. Their name is completed, because customers show nothing that proves who they are.
func customer(name string) person {
	return signedIn(name+"."+strings.ToLower(rand.Text()[:12]), roleCustomer)
}

func signedIn(name string, as role) person {
	return person{name, as, time.Now().Add(signedFor).UTC().Truncate(time.Second)}
}

// may asks authorize for a route of the program itself. If it returns false, it has answered.
func (s *signer) may(w http.ResponseWriter, r *http.Request, session string, action turnhttp.Action) bool {
	_, err := s.authorize(r, session, action)
	if err != nil {
		refuse(w, r, err)
	}
	return err == nil
}

// refuse answers with the error of authorize or who.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, turnhttp.ErrDenied) {
		turnhttp.Problem(w, r, err)
		return
	}
	problem(w, http.StatusUnauthorized, "unauthorized", "The client is not known.")
}

// problem answers as turnhttp does.
func problem(w http.ResponseWriter, status int, kind, title string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "/problems/" + kind, "title": title, "status": status})
}
