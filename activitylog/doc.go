// Package activitylog defines the vocabulary of the activity log, the append-only record of what
// a bus did. Other programs read it as the SQLite view activity_log (section 12 of the Agent
// Communication Protocol, Extended v2).
//
// A [Row] is a line to be written, and an [Entry] is a line that was read. An [Assembler] groups
// entries into the publications of a message and their deliveries. [AttentionRecord] and
// [ChatEvent] hold the decisions and chat messages in rows. A [Retention] is how much is kept.
//
// Package write appends rows and removes old ones, package read runs queries, and package audit
// verifies logs and proves rows. Package internal/segment reads the files of a log, and package
// internal/merkle has the signed tree. Package chain finds the causes and effects of a message,
// package agentstats counts the decisions of agents, package view describes rows in words, and
// package otlp exports rows as traces.
package activitylog
