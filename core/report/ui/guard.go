package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// guard lets requests through that have the token, as a cookie or in the header Authorization,
// and refuses those that other sites make a browser send. The address with the token sets the cookie.
func (s *Server) guard(addr net.Addr, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(addr.String())
	cookie := "trainctl-" + port // cookies are shared by all ports of a host
	same := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !hostAllowed(addr, r.Host) {
			http.Error(w, "this address is not trainctl's; open the one that trainctl ui printed", http.StatusForbidden)
			return
		}
		if err := same.Check(r); err != nil {
			http.Error(w, "refused: another site sent this request", http.StatusForbidden)
			return
		}
		if given := r.URL.Query().Get("token"); given != "" && r.Method == http.MethodGet && s.right(given) {
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: given, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if c, err := r.Cookie(cookie); err == nil && given == "" {
			given = c.Value
		}
		if !s.right(given) {
			http.Error(w, "the token is missing or wrong; open the address that trainctl ui printed", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) right(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// hostAllowed reports whether a request to a loopback address names it as such: a site whose name
// resolves to this machine does not.
func hostAllowed(addr net.Addr, host string) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}
