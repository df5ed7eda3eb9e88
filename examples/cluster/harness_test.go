package main

var raceDetector = false
