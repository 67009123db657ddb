// A container in Go, on gorilla/websocket.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

const (
	maxMessage = 16 << 20
	// Seconds for the answer to a Close of ours.
	closeTimeout = 5 * time.Second
)

// streams are the open ones: http.Server knows nothing of them once they are hijacked.
type streams struct {
	mutex sync.Mutex
	open  map[*websocket.Conn]struct{}
	ended sync.WaitGroup
}

func (all *streams) add(conn *websocket.Conn) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.open[conn] = struct{}{}
	all.ended.Add(1)
}

func (all *streams) remove(conn *websocket.Conn) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	delete(all.open, conn)
	all.ended.Done()
}

// stop says Close to all, and waits until each has ended.
func (all *streams) stop() {
	deadline := time.Now().Add(closeTimeout)
	all.mutex.Lock()
	goodbye := websocket.FormatCloseMessage(websocket.CloseGoingAway, "the container stops")
	for conn := range all.open {
		conn.WriteControl(websocket.CloseMessage, goodbye, deadline)
		conn.SetReadDeadline(deadline)
	}
	all.mutex.Unlock()
	all.ended.Wait()
}

var notText = websocket.FormatCloseMessage(websocket.CloseInvalidFramePayloadData, "no UTF-8")

// Origin is not sent by the platform; who comes it has asked before.
var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

func (all *streams) serve(response http.ResponseWriter, request *http.Request) {
	conn, err := upgrader.Upgrade(response, request, nil)
	if err != nil {
		return // it has been answered
	}
	defer conn.Close()
	all.add(conn)
	defer all.remove(conn)
	conn.SetReadLimit(maxMessage)
	// Pings and the client's Close are answered inside ReadMessage.
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if kind == websocket.TextMessage && !utf8.Valid(message) { // gorilla does not look
			conn.WriteControl(websocket.CloseMessage, notText, time.Now().Add(closeTimeout))
			return
		}
		if conn.WriteMessage(kind, message) != nil {
			return
		}
	}
}

func ping(response http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodGet && request.Method != http.MethodPost {
		response.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func invocations(response http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		response.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	response.(http.Flusher).Flush() // in chunks: its length is not said
	io.Copy(response, request.Body)
}

func main() {
	if len(os.Args) != 2 || os.Args[1] != "serve" {
		fmt.Fprintln(os.Stderr, "usage: on_gorilla serve")
		os.Exit(2)
	}
	port := os.Getenv("SAGEMAKER_BIND_TO_PORT")
	if port == "" {
		port = "8080"
	}
	all := &streams{open: map[*websocket.Conn]struct{}{}}
	http.HandleFunc("/ping", ping)
	http.HandleFunc("/invocations", invocations)
	http.HandleFunc("/invocations-bidirectional-stream", all.serve)
	server := &http.Server{Addr: ":" + port}

	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		if err := server.ListenAndServe(); err != http.ErrServerClosed {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	<-stopped.Done()
	all.stop()
	within, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	server.Shutdown(within)
}
