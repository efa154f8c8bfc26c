package main

import "net/http"

func (a *agent) socket(w http.ResponseWriter, r *http.Request) {}
