package reminders

import (
	"strings"
	"testing"
	"time"
)

// whenCases have the meaning of a time on 2026-11-28 at 10:56 in Berlin: the cron expression and
// the next time, or a part of the error.
var whenCases = map[string]string{
	"2026-11-29T09:00":                    "2026-11-29T09:00:00+01:00",
	"2026-11-29T09:00:30":                 "2026-11-29T09:00:30+01:00",
	"2026-11-29 09:00":                    "2026-11-29T09:00:00+01:00",
	"2026-11-29T09:00+02:00":              "2026-11-29T09:00:00+02:00",
	"2026-11-29T09:00:00+02:00":           "2026-11-29T08:00:00+01:00",
	"2026-11-29t09:00:00z":                "2026-11-29T10:00:00+01:00",
	"2026-11-29T09:00:00.000Z":            "2026-11-29T10:00:00+01:00",
	"2026-11-29 09:00 Z":                  "2026-11-29T09:00:00Z",
	"2026-11-29 09:00 -0530":              "2026-11-29T09:00:00-05:30",
	"2026-11-29 09:00 UTC":                "2026-11-29T09:00:00Z",
	"2026-11-29 09:00 UTC+3":              "2026-11-29T09:00:00+03:00",
	"2026-11-29 09:00 Asia/Tokyo":         "2026-11-29T09:00:00+09:00",
	"2026-11-29T09:00+09:00[Asia/Tokyo]":  "2026-11-29T09:00:00+09:00",
	"2026-07-01 09:00 (America/New_York)": "2026-07-01T09:00:00-04:00 has passed",
	"2027-07-01 09:00 (America/New_York)": "2027-07-01T09:00:00-04:00",
	"2026-11-30 9:00 PST":                 "2026-11-30T09:00:00-08:00",
	"tomorrow 9:00":                       "2026-11-29T09:00:00+01:00",
	"tomorrow at 9":                       "2026-11-29T09:00:00+01:00",
	"Tomorrow, 9 AM":                      "2026-11-29T09:00:00+01:00",
	"tomorrow at noon":                    "2026-11-29T12:00:00+01:00",
	"tomorrow 9:00 Europe/Lisbon":         "2026-11-29T09:00:00Z",
	"the day after tomorrow at 18:30":     "2026-11-30T18:30:00+01:00",
	"today 17:30":                         "2026-11-28T17:30:00+01:00",
	"tonight at 8":                        "2026-11-28T20:00:00+01:00",
	"17:30":                               "2026-11-28T17:30:00+01:00",
	"at 9":                                "2026-11-29T09:00:00+01:00",
	"9am":                                 "2026-11-29T09:00:00+01:00",
	"12:15 a.m.":                          "2026-11-29T00:15:00+01:00",
	"Monday 08:30":                        "2026-11-30T08:30:00+01:00",
	"next Saturday at 10:00":              "2026-12-05T10:00:00+01:00",
	"this Saturday at noon":               "2026-11-28T12:00:00+01:00",
	"Saturday 17:30":                      "2026-11-28T17:30:00+01:00",
	"Saturday 9:00":                       "2026-12-05T09:00:00+01:00",
	"Saturdays at 12":                     "0 12 * * 6 2026-11-28T12:00:00+01:00",
	"tomorrow at nine":                    "2026-11-29T09:00:00+01:00",
	"at seven pm":                         "2026-11-28T19:00:00+01:00",
	"Monday at half past nine":            "2026-11-30T09:30:00+01:00",
	"tomorrow at quarter to 10":           "2026-11-29T09:45:00+01:00",
	"at a quarter past eleven":            "2026-11-28T11:15:00+01:00",
	"tomorrow at 20 past eight":           "2026-11-29T08:20:00+01:00",
	"tomorrow evening at eight":           "2026-11-29T20:00:00+01:00",
	"tomorrow at 9 in the morning":        "2026-11-29T09:00:00+01:00",
	"this afternoon at 3":                 "2026-11-28T15:00:00+01:00",
	"in 3 days at 8:00":                   "2026-12-01T08:00:00+01:00",
	"in two weeks at noon":                "2026-12-12T12:00:00+01:00",
	"at 10:00 in a week":                  "2026-12-05T10:00:00+01:00",
	"on Friday at 5 pm":                   "2026-12-04T17:00:00+01:00",
	"29.11.2026 09:00":                    "2026-11-29T09:00:00+01:00",
	"Sun, 29 Nov 2026 09:00":              "2026-11-29T09:00:00+01:00",
	"November 29, 2026 at 9:00 AM":        "2026-11-29T09:00:00+01:00",
	"2 January 7:05":                      "2027-01-02T07:05:00+01:00",
	"Dec 1st at 12:00":                    "2026-12-01T12:00:00+01:00",
	"in 20 minutes":                       "2026-11-28T11:16:00+01:00",
	"20 min":                              "2026-11-28T11:16:00+01:00",
	"20 minutes from now":                 "2026-11-28T11:16:00+01:00",
	"in half an hour":                     "2026-11-28T11:26:00+01:00",
	"in an hour and 15 minutes":           "2026-11-28T12:11:00+01:00",
	"in two days":                         "2026-11-30T10:56:00+01:00",
	"1.5 hours":                           "2026-11-28T12:26:00+01:00",
	"+90m":                                "2026-11-28T12:26:00+01:00",
	"2d":                                  "2026-11-30T10:56:00+01:00",
	"PT45M":                               "2026-11-28T11:41:00+01:00",
	"P1DT2H":                              "2026-11-29T12:56:00+01:00",
	"in a week":                           "2026-12-05T10:56:00+01:00",
	"in 3 months":                         "2027-02-28T10:56:00+01:00",

	"tomorrow":                     "2026-11-29T09:00:00+01:00",
	"2026-11-29":                   "2026-11-29T09:00:00+01:00",
	"Monday":                       "2026-11-30T09:00:00+01:00",
	"Saturday":                     "2026-12-05T09:00:00+01:00",
	"next week":                    "2026-11-30T09:00:00+01:00",
	"next week, 14:00":             "2026-11-30T14:00:00+01:00",
	"Wednesday next week":          "2026-12-02T09:00:00+01:00",
	"next Monday 9am":              "2026-11-30T09:00:00+01:00",
	"next Monday at 9":             "2026-11-30T09:00:00+01:00",
	"next month":                   "2026-12-01T09:00:00+01:00",
	"on the 3rd of next month":     "2026-12-03T09:00:00+01:00",
	"on the 30th at 8:15":          "2026-11-30T08:15:00+01:00",
	"the 5th, 17:00":               "2026-12-05T17:00:00+01:00",
	"end of the month":             "2026-11-30T09:00:00+01:00",
	"this weekend":                 "2026-12-05T09:00:00+01:00",
	"tonight":                      "2026-11-28T20:00:00+01:00",
	"tomorrow morning":             "2026-11-29T09:00:00+01:00",
	"tomorrow afternoon":           "2026-11-29T15:00:00+01:00",
	"this evening":                 "2026-11-28T19:00:00+01:00",
	"Monday evening":               "2026-11-30T19:00:00+01:00",
	"end of day":                   "2026-11-28T17:00:00+01:00",
	"EOD tomorrow":                 "2026-11-29T17:00:00+01:00",
	"first thing tomorrow":         "2026-11-29T09:00:00+01:00",
	"tomorrow 9":                   "2026-11-29T09:00:00+01:00",
	"Tuesday 14 to 16":             "the time of day is missing",
	"tomorrow 9 to 10":             "the time of day is missing",
	"weekdays 9 to 17":             "the time of day is missing",
	"tomorrow 20 to 9":             "2026-11-29T08:40:00+01:00",
	"tomorrow ten to eleven":       "2026-11-29T10:50:00+01:00",
	"9 PM tomorrow":                "2026-11-29T21:00:00+01:00",
	"tomorrow at nine thirty":      "2026-11-29T09:30:00+01:00",
	"tomorrow at seven fifteen pm": "2026-11-29T19:15:00+01:00",
	"at twenty past eleven":        "2026-11-28T11:20:00+01:00",
	"this time tomorrow":           "2026-11-29T10:56:00+01:00",
	"Monday, same time":            "2026-11-30T10:56:00+01:00",
	"by 5pm":                       "2026-11-28T17:00:00+01:00",
	"until Friday 17:00":           "2026-12-04T17:00:00+01:00",
	"around noon tomorrow":         "2026-11-29T12:00:00+01:00",
	"in an hour and a half":        "2026-11-28T12:26:00+01:00",
	"in one and a half hours":      "2026-11-28T12:26:00+01:00",
	"in two hours and a half":      "2026-11-28T13:26:00+01:00",
	"in a quarter of an hour":      "2026-11-28T11:11:00+01:00",
	"in three quarters of an hour": "2026-11-28T11:41:00+01:00",
	"in a couple of hours":         "2026-11-28T12:56:00+01:00",
	"in twenty minutes":            "2026-11-28T11:16:00+01:00",
	"forty-five minutes from now":  "2026-11-28T11:41:00+01:00",
	"in half a day":                "2026-11-28T22:56:00+01:00",
	"in a day and a half":          "2026-11-29T22:56:00+01:00",
	"in a fortnight":               "2026-12-12T10:56:00+01:00",
	"in 2 days":                    "2026-11-30T10:56:00+01:00",
	"in 1h 30m":                    "2026-11-28T12:26:00+01:00",
	"2027-03-28T02:30":             "2027-03-28T03:30:00+02:00",
	"2027-10-31 02:30":             "2027-10-31T02:30:00+02:00",
	"Dec 1":                        "2026-12-01T09:00:00+01:00",
	"24.12. 18:00":                 "2026-12-24T18:00:00+01:00",
	"am 3.1., 9:00":                "not understood",
	"3.1. at 9:00":                 "2027-01-03T09:00:00+01:00",
	"12/24/2026 18:00":             "2026-12-24T18:00:00+01:00",
	"24/12/2026 at 6 pm":           "2026-12-24T18:00:00+01:00",
	"12/12/2026":                   "2026-12-12T09:00:00+01:00",
	"Thu Dec 24 18:00:00 2026":     "2026-12-24T18:00:00+01:00",
	"tmrw 9am":                     "2026-11-29T09:00:00+01:00",
	"tomorrow 9:00 local time":     "2026-11-29T09:00:00+01:00",
	"Friday COB":                   "2026-12-04T17:00:00+01:00",

	"every morning":                        "0 9 * * * 2026-11-29T09:00:00+01:00",
	"every morning at 8":                   "0 8 * * * 2026-11-29T08:00:00+01:00",
	"each evening":                         "0 19 * * * 2026-11-28T19:00:00+01:00",
	"every night at 10":                    "0 22 * * * 2026-11-28T22:00:00+01:00",
	"daily in the evening":                 "0 19 * * * 2026-11-28T19:00:00+01:00",
	"every Monday morning":                 "0 9 * * 1 2026-11-30T09:00:00+01:00",
	"every Sunday evening at 8":            "0 20 * * 0 2026-11-29T20:00:00+01:00",
	"Monday to Friday at 9":                "0 9 * * 1-5 2026-11-30T09:00:00+01:00",
	"every Tuesday through Thursday, 7:30": "30 7 * * 2-4 2026-12-01T07:30:00+01:00",
	"Mon – Fri 9:00":                       "0 9 * * 1-5 2026-11-30T09:00:00+01:00",
	"Sat–Sun 10:00":                        "0 10 * * 6-7 2026-11-29T10:00:00+01:00",
	"daily at 9 and 18":                    "0 9,18 * * * 2026-11-28T18:00:00+01:00",
	"every day 8am and 8pm":                "0 8,20 * * * 2026-11-28T20:00:00+01:00",
	"every day at 8:00, 14:00 and 20:00":   "0 8,14,20 * * * 2026-11-28T14:00:00+01:00",
	"weekdays 9:30 & 17:30":                "30 9,17 * * 1-5 2026-11-30T09:30:00+01:00",
	"daily at 9:00 and 17:30":              "one reminder for each",
	"daily at 9 and then":                  "not understood",
	"daily 09:00":                          "0 9 * * * 2026-11-29T09:00:00+01:00",
	"every day at 9":                       "0 9 * * * 2026-11-29T09:00:00+01:00",
	"daily at 18:15 Asia/Tokyo":            "15 18 * * * 2026-11-29T18:15:00+09:00",
	"weekdays 9:00":                        "0 9 * * 1-5 2026-11-30T09:00:00+01:00",
	"every weekday at 9 am":                "0 9 * * 1-5 2026-11-30T09:00:00+01:00",
	"every Monday 8:30":                    "30 8 * * 1 2026-11-30T08:30:00+01:00",
	"Mondays at 8:30":                      "30 8 * * 1 2026-11-30T08:30:00+01:00",
	"Mon-Fri 9:00":                         "0 9 * * 1-5 2026-11-30T09:00:00+01:00",
	"every tue, thu and sat at 21:00":      "0 21 * * 2,4,6 2026-11-28T21:00:00+01:00",
	"weekly on Friday at noon":             "0 12 * * 5 2026-12-04T12:00:00+01:00",
	"monthly on the 1st at 9:00":           "0 9 1 * * 2026-12-01T09:00:00+01:00",
	"hourly":                               "0 * * * * 2026-11-28T11:00:00+01:00",
	"every 30 minutes":                     "*/30 * * * * 2026-11-28T11:00:00+01:00",
	"every 2 hours":                        "0 */2 * * * 2026-11-28T12:00:00+01:00",
	"0 9 * * 1-5":                          "0 9 * * 1-5 2026-11-30T09:00:00+01:00",
	"@daily":                               "@daily 2026-11-29T00:00:00+01:00",
	"CRON_TZ=Asia/Tokyo 0 9 * * *":         "0 9 * * * 2026-11-29T09:00:00+09:00",
	"":                                     "the time is missing",
	"every day":                            "the time of day is missing",
	"today":                                "the time of day is missing",
	"next":                                 "not a time",
	"in the end":                           "not a time",
	"monthly at 9:00":                      "the day of the month is missing",
	"soon":                                 "not a time",
	"1":                                    "not a time",
	"2026-02-30 09:00":                     "there is no day",
	"25:00":                                "not a time of day",
	"11/12/2026 09:00":                     "which part is the month",
	"every 45 minutes":                     "@every 45m 2026-11-28T11:41:00+01:00",
	"every 90 min":                         "@every 90m 2026-11-28T12:26:00+01:00",
	"every 7 hours":                        "@every 420m 2026-11-28T17:56:00+01:00",
	"every half hour":                      "*/30 * * * * 2026-11-28T11:00:00+01:00",
	"every other hour":                     "0 */2 * * * 2026-11-28T12:00:00+01:00",
	"@every 1h":                            "0 */1 * * * 2026-11-28T11:00:00+01:00",
	"every 4 minutes":                      "at least 5 minutes",
	"every 400 days at 9":                  "at most a year",
	"every other day at 9":                 "@every 2d 9:00 2026-11-29T09:00:00+01:00",
	"every second day, 17:30":              "@every 2d 17:30 2026-11-28T17:30:00+01:00",
	"every 3 days at 10:00":                "@every 3d 10:00 2026-11-29T10:00:00+01:00",
	"every three days at noon":             "@every 3d 12:00 2026-11-28T12:00:00+01:00",
	"every 10 days in the evening":         "@every 10d 19:00 2026-11-28T19:00:00+01:00",
	"every 3 days":                         "the time of day is missing",
	"every 3 days at 9 and 18":             "one reminder for each",
	"every other Monday at 9":              "@every 14d 9:00 2026-11-30T09:00:00+01:00",
	"every 2 weeks on Thursday, 7:00":      "@every 14d 7:00 2026-12-03T07:00:00+01:00",
	"biweekly on Friday 10:00":             "@every 14d 10:00 2026-12-04T10:00:00+01:00",
	"every second Friday evening":          "@every 14d 19:00 2026-12-04T19:00:00+01:00",
	"every two weeks on Mon and Thu at 9":  "one reminder for each",
	"every 3 months on the 1st at 9:00":    "0 9 1 */3 * 2027-01-01T09:00:00+01:00",
	"quarterly on the 15th, 8:30":          "30 8 15 */3 * 2027-01-15T08:30:00+01:00",
	"every 5 months on the 1st at 9":       "must be 1, 2, 3, 4, 6 or 12",
	"every year on May 3 at 9:00":          "0 9 3 5 * 2027-05-03T09:00:00+02:00",
	"yearly on 24 December, 18:00":         "0 18 24 12 * 2026-12-24T18:00:00+01:00",
	"every December 6 at 7:00":             "0 7 6 12 * 2026-12-06T07:00:00+01:00",
	"yearly at 9":                          "the date is missing",
	"last day of every month at 17:00":     "0 17 L * * 2026-11-30T17:00:00+01:00",
	"monthly on the last day at 9:00":      "0 9 L * * 2026-11-30T09:00:00+01:00",
	"on the last day of the month":         "2026-11-30T09:00:00+01:00",
	"last Friday of each month, 16:00":     "0 16 * * 5L 2026-12-25T16:00:00+01:00",
	"first Monday of every month at 9:00":  "0 9 * * 1#1 2026-12-07T09:00:00+01:00",
	"every 2nd Tuesday of the month 18:00": "0 18 * * 2#2 2026-12-08T18:00:00+01:00",
	"the first Monday of the month":        "2026-12-07T09:00:00+01:00",
	"first Friday of next month, 12:00":    "2026-12-04T12:00:00+01:00",
	"1st and 15th of every month at 9":     "0 9 1,15 * * 2026-12-01T09:00:00+01:00",
	"every 15th at 10:00":                  "0 10 15 * * 2026-12-15T10:00:00+01:00",
	"every weekday except Friday at 9":     "0 9 * * 1,2,3,4 2026-11-30T09:00:00+01:00",
	"every day but Monday, 7:00":           "0 7 * * 0,2,3,4,5,6 2026-11-29T07:00:00+01:00",
	"every morning except weekends":        "0 9 * * 1,2,3,4,5 2026-11-30T09:00:00+01:00",
	"Mon-Fri 9:00, excluding Wednesday":    "0 9 * * 1,2,4,5 2026-11-30T09:00:00+01:00",
	"daily except Sat and Sun at 8":        "0 8 * * 1,2,3,4,5 2026-11-30T08:00:00+01:00",
	"every weekend except Sat, Sun at 9":   "no day is left",
	"every 3 days except Sunday at 9":      "only a repetition by days of the week",
	"tomorrow 9:00 except Friday":          "only a repetition by days of the week",
	"every working day at 8":               "0 8 * * 1-5 2026-11-30T08:00:00+01:00",
	"Tue/Thu 9:00":                         "0 9 * * 2,4 2026-12-01T09:00:00+01:00",
	"nightly at 23:00":                     "0 23 * * * 2026-11-28T23:00:00+01:00",

	"2026-11-29T09:00:00+02":             "2026-11-29T09:00:00+02:00",
	"2026-11-29 09:00:00.5-03":           "2026-11-29T09:00:00-03:00",
	"20261129T090000Z":                   "2026-11-29T10:00:00+01:00",
	"20261129T0900":                      "2026-11-29T09:00:00+01:00",
	"20261129t090000 Asia/Tokyo":         "2026-11-29T09:00:00+09:00",
	"Mon/Wed/Fri 9:00":                   "0 9 * * 1,3,5 2026-11-30T09:00:00+01:00",
	"tomorrow at 24:00":                  "2026-11-30T00:00:00+01:00",
	"today 24:00":                        "2026-11-29T00:00:00+01:00",
	"Saturday 24:00":                     "2026-11-29T00:00:00+01:00",
	"Saturday night at 1":                "2026-11-29T01:00:00+01:00",
	"2026-12-31T24:00":                   "2027-01-01T00:00:00+01:00",
	"daily 24:00":                        "0 0 * * * 2026-11-29T00:00:00+01:00",
	"Monday 14-12-2026 09:00":            "2026-12-14T09:00:00+01:00",
	"14/12/2026, Monday, 09:00":          "2026-12-14T09:00:00+01:00",
	"Monday, 14.12.2026 9:00":            "2026-12-14T09:00:00+01:00",
	"24:30":                              "not a time of day",
	"0 9 * * 1-5 Asia/Tokyo":             "0 9 * * 1-5 2026-11-30T09:00:00+09:00",
	"30 7 * * * (America/Sao_Paulo)":     "30 7 * * * 2026-11-28T07:30:00-03:00",
	"first day of every month at 9":      "0 9 1 * * 2026-12-01T09:00:00+01:00",
	"2nd day of each month, 17:00":       "0 17 2 * * 2026-12-02T17:00:00+01:00",
	"every first of the month at 8":      "0 8 1 * * 2026-12-01T08:00:00+01:00",
	"first of every month, 8:30":         "30 8 1 * * 2026-12-01T08:30:00+01:00",
	"every second month on the 1st, 9am": "0 9 1 */2 * 2027-01-01T09:00:00+01:00",
	"once a day at 9":                    "0 9 * * * 2026-11-29T09:00:00+01:00",
	"twice a day at 9 and 18":            "0 9,18 * * * 2026-11-28T18:00:00+01:00",
	"three times a day at 8, 12 and 18":  "0 8,12,18 * * * 2026-11-28T12:00:00+01:00",
	"once a week on Monday at 9":         "0 9 * * 1 2026-11-30T09:00:00+01:00",
	"in 1h30":                            "2026-11-28T12:26:00+01:00",
	"in 2h5m":                            "2026-11-28T13:01:00+01:00",
	"@every 1h30m":                       "@every 90m 2026-11-28T12:26:00+01:00",
	"every 2 hours and 30 minutes":       "@every 150m 2026-11-28T13:26:00+01:00",
	"tomorrow at 9h30":                   "2026-11-29T09:30:00+01:00",
	"in a year":                          "2027-11-28T10:56:00+01:00",
	"in two years":                       "at most a year",
	"tomorrow at 09:00 hrs":              "2026-11-29T09:00:00+01:00",
	"tomorrow 9:00 my time":              "2026-11-29T09:00:00+01:00",
	"tomorrow 9:00 (local)":              "2026-11-29T09:00:00+01:00",
	"29-11-2026 09:00":                   "2026-11-29T09:00:00+01:00",
	"05-06-2027 9:00":                    "which part is the month",
	"three days from now at 9":           "2026-12-01T09:00:00+01:00",

	"tonight at 12":                             "2026-11-29T00:00:00+01:00",
	"12 at night":                               "2026-11-29T00:00:00+01:00",
	"midnight tonight":                          "2026-11-29T00:00:00+01:00",
	"today at midnight":                         "2026-11-29T00:00:00+01:00",
	"tonight 1am":                               "2026-11-29T01:00:00+01:00",
	"tonight at 2":                              "2026-11-29T02:00:00+01:00",
	"tomorrow night at 12":                      "2026-11-30T00:00:00+01:00",
	"Friday night at 0:30":                      "2026-12-05T00:30:00+01:00",
	"tonight at 11:30":                          "2026-11-28T23:30:00+01:00",
	"tomorrow at 12 noon":                       "2026-11-29T12:00:00+01:00",
	"every night at 12":                         "0 0 * * * 2026-11-29T00:00:00+01:00",
	"every Friday night at 12":                  "between two days",
	"last day of every month at 24:00":          "between two days",
	"first Monday of the month 24:00":           "between two days",
	"every other Monday at 24:00":               "between two days",
	"every 3 months on the 1st at 24:00":        "between two days",
	"in 1.5h 30m":                               "2026-11-28T12:56:00+01:00",
	"in 2.5 hours and 10 minutes":               "2026-11-28T13:36:00+01:00",
	"tomorrow at 9:30 h":                        "2026-11-29T09:30:00+01:00",
	"2:30 hours":                                "not understood",
	"ten to midnight":                           "2026-11-28T23:50:00+01:00",
	"quarter to noon":                           "2026-11-28T11:45:00+01:00",
	"tomorrow at 1700":                          "2026-11-29T17:00:00+01:00",
	"tomorrow at lunch":                         "2026-11-29T12:00:00+01:00",
	"this coming Tuesday 14:00":                 "2026-12-01T14:00:00+01:00",
	"a week from tomorrow":                      "2026-12-06T09:00:00+01:00",
	"two weeks from Friday, 15:00":              "2026-12-18T15:00:00+01:00",
	"Dec 1 9am Eastern":                         "2026-12-01T09:00:00-05:00",
	"tomorrow 9 AM PT":                          "2026-11-29T09:00:00-08:00",
	"Dec 1 at 9:00 (UTC+2)":                     "2026-12-01T09:00:00+02:00",
	"1 Dec 9:00 (CET)":                          "2026-12-01T09:00:00+01:00",
	"2026-11-29 09:00 Mars/Olympus":             `"Mars/Olympus" is not a time zone`,
	"2026-11-29 09:00 IST":                      "several time zones",
	"tomorrow 9:00 unless it rains":             `"unless it rains" is not understood`,
	"2026-11-28T10:00":                          "Saturday 2026-11-28 10:00 +01:00 (Europe/Berlin) has passed; it is Saturday 2026-11-28 10:56",
	"in 400 days":                               "at most a year",
	"every minute":                              "at least 5 minutes",
	"every 400 seconds":                         "of whole minutes",
	"every 5.5 minutes":                         "of whole minutes",
	"every 1.5 days":                            "of whole minutes or days",
	" @every  90m":                              "@every 90m 2026-11-28T12:26:00+01:00",
	"*/2 * * * *":                               "more often than",
	"tomorrow 9:00 " + strings.Repeat("x", 300): "not understood",
}

// TestSchedule_ReadsTheFormsOfModels reads each form on a Saturday morning in Berlin.
func TestSchedule_ReadsTheFormsOfModels(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 10, 56, 0, 0, berlin)
	for when, want := range whenCases {
		var r Reminder
		got := ""
		if err := r.Schedule(when, "", berlin, now); err != nil {
			got = err.Error()
		} else {
			got = strings.TrimSpace(r.Cron + " " + r.Due.Format(time.RFC3339))
			if got == want {
				continue
			}
		}
		if _, passed, found := strings.Cut(want, " has passed"); !strings.Contains(got, want) && !(found && strings.Contains(got, "has passed") && passed == "") {
			t.Errorf("%q gives %q; want %q", when, got, want)
		}
	}
}

// TestParseSince_ReadsPastTimes also runs in Berlin, on the Saturday when clocks change.
func TestParseSince_ReadsPastTimes(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 10, 56, 0, 0, berlin)
	for since, want := range map[string]string{
		"2026-11-28T08:00:00Z":    "2026-11-28T09:00:00+01:00",
		"2026-11-28 08:00":        "2026-11-28T08:00:00+01:00",
		"2026-11-27T08:00:00.123": "2026-11-27T08:00:00+01:00",
		"2026-11-27":              "2026-11-27T00:00:00+01:00",
		"today":                   "2026-11-28T00:00:00+01:00",
		"today 9:00":              "2026-11-28T09:00:00+01:00",
		"yesterday":               "2026-11-27T00:00:00+01:00",
		"yesterday 24:00":         "2026-11-28T00:00:00+01:00",
		"Yesterday at 6 pm":       "2026-11-27T18:00:00+01:00",
		"2 hours ago":             "2026-11-28T08:56:00+01:00",
		"an hour and a half ago":  "2026-11-28T09:26:00+01:00",
		"45m":                     "2026-11-28T10:11:00+01:00",
		"last 3 days":             "2026-11-25T10:56:00+01:00",
		"yesterday 9:00 UTC":      "2026-11-27T10:00:00+01:00",
		"2026-11-29 08:00":        "2026-11-29T08:00:00+01:00",
		"2026-11-29T08:00:00Z":    "2026-11-29T09:00:00+01:00",
		"27.11.2026":              "2026-11-27T00:00:00+01:00",
		"Nov 3, 2026":             "2026-11-03T00:00:00+01:00",
		"2026-11-03 Asia/Tokyo":   "2026-11-02T16:00:00+01:00",
		"3 November":              "2026-11-03T00:00:00+01:00",
		"Dec 24":                  "2025-12-24T00:00:00+01:00",
		"Dec 24, 18:00":           "2025-12-24T18:00:00+01:00",
		"Dec 24, 2026":            "error",
		"9:00":                    "error",
		"Monday":                  "error",
		"tomorrow":                "error",
		"long ago":                "error",
		"yesterday or so":         "error",
		"lunch":                   "error",
	} {
		got := "error"
		if at, err := ParseSince(since, berlin, now); err == nil {
			got = at.In(berlin).Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("since %q is %s; want %s", since, got, want)
		}
	}
}

// TestAdvance_KeepsLocalTimesWhenClocksChange follows daily times over the days on which clocks are
// set forward and back: each occurs once a day.
func TestAdvance_KeepsLocalTimesWhenClocksChange(t *testing.T) {
	for name, c := range map[string]struct {
		cron, zone, from string
		want             []string
	}{
		"a time that does not exist": {"30 2 * * *", "Europe/Berlin", "2027-03-27T00:00:00+01:00", []string{
			"2027-03-27T02:30:00+01:00", "2027-03-28T03:30:00+02:00", "2027-03-29T02:30:00+02:00"}},
		"a time that exists twice": {"30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00+02:00", []string{
			"2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"in the morning": {"0 9 * * *", "America/New_York", "2027-03-13T00:00:00-05:00", []string{
			"2027-03-13T09:00:00-05:00", "2027-03-14T09:00:00-04:00", "2027-03-15T09:00:00-04:00"}},
		"half an hour": {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00+10:30", []string{
			"2026-10-03T02:15:00+10:30", "2026-10-04T02:45:00+11:00", "2026-10-05T02:15:00+11:00"}},
		"at midnight, which does not exist": {"0 0 * * *", "Africa/Cairo", "2027-04-29T12:00:00+02:00", []string{
			"2027-04-30T01:00:00+03:00", "2027-05-01T00:00:00+03:00"}},
		"twice a night": {"30 2,3 * * *", "Europe/Berlin", "2027-03-28T00:00:00+01:00", []string{
			"2027-03-28T03:30:00+02:00", "2027-03-29T02:30:00+02:00"}},
		"every hour over the gap": {"0 * * * *", "Europe/Berlin", "2027-03-28T00:30:00+01:00", []string{
			"2027-03-28T01:00:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-28T04:00:00+02:00"}},
		"every hour over the repeated one": {"0 * * * *", "Europe/Berlin", "2026-10-25T01:30:00+02:00", []string{
			"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		"every other day over the gap": {"@every 2d 2:30", "Europe/Berlin", "2027-03-26T02:30:00+01:00", []string{
			"2027-03-28T03:30:00+02:00", "2027-03-30T02:30:00+02:00", "2027-04-01T02:30:00+02:00"}},
		"every two weeks over a change": {"@every 14d 9:00", "America/New_York", "2026-10-26T09:00:00-04:00", []string{
			"2026-11-09T09:00:00-05:00", "2026-11-23T09:00:00-05:00"}},
		"every 90 minutes": {"@every 90m", "Europe/Berlin", "2027-03-28T00:45:00+01:00", []string{
			"2027-03-28T03:15:00+02:00", "2027-03-28T04:45:00+02:00"}},
		"the last day of each month": {"0 17 L * *", "Europe/Berlin", "2027-01-31T17:00:00+01:00", []string{
			"2027-02-28T17:00:00+01:00", "2027-03-31T17:00:00+02:00", "2027-04-30T17:00:00+02:00"}},
		"within the repeated hour": {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", []string{
			"2026-10-26T02:30:00+01:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			r := Reminder{Cron: c.cron, Due: at}
			for _, want := range c.want {
				if err := r.advance(r.Due.In(zone)); err != nil {
					t.Fatal(err)
				}
				if got := r.Due.Format(time.RFC3339); got != want {
					t.Errorf("the next is %s; want %s", got, want)
				}
			}
		})
	}
}

// TestNextStep_SkipsWhatWasMissed checks intervals after the agent was down: their phase stays,
// and no past time is returned.
func TestNextStep_SkipsWhatWasMissed(t *testing.T) {
	due := time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC)
	for step, want := range map[string]string{
		"2d 9:00": "2027-01-11T09:00:00Z", "3d 9:00": "2027-01-13T09:00:00Z", "14d 9:00": "2027-01-15T09:00:00Z",
		"90m": "2027-01-10T10:30:00Z", "420m": "2027-01-10T10:00:00Z", "nonsense": "2027-01-11T09:00:00Z",
	} {
		if got := nextStep(step, due, due.AddDate(0, 0, 9).Add(time.Minute)).Format(time.RFC3339); got != want {
			t.Errorf("@every %s: the next is %s; want %s", step, got, want)
		}
	}
}

func TestParseTime_TakesShortTexts(t *testing.T) {
	now := time.Date(2026, 11, 28, 10, 56, 0, 0, time.UTC)
	at, err := ParseTime("tomorrow 9:00"+strings.Repeat(" ", maxWhen-13), time.UTC, now)
	if err != nil || at.Day() != 29 {
		t.Errorf("%v, %v", at, err)
	}
	long := "daily" + strings.Repeat(" 9", maxWhen)
	if _, err := ParseTime(long, time.UTC, now); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long time: %v", err)
	}
	if _, err := ParseSince(long, time.UTC, now); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long time in the past: %v", err)
	}
}
