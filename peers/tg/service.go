package tg

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
)

// maxNamed bounds the excerpt of another message in the words for a service message, in characters.
const maxNamed = 200

// describeService returns words for a service message, which reports what somebody did in the chat, or
// "" for kinds whose name says everything.
func describeService(m *models.Message) string {
	switch {
	case m.NewChatTitle != "":
		return "[new title of the chat: " + m.NewChatTitle + "]"
	case m.PinnedMessage != nil:
		return "[pinned message: " + pinnedText(m.PinnedMessage) + "]"
	case m.ForumTopicCreated != nil:
		return "[new topic: " + m.ForumTopicCreated.Name + "]"
	case m.ForumTopicEdited != nil && m.ForumTopicEdited.Name != "":
		return "[new name of the topic: " + m.ForumTopicEdited.Name + "]"
	case m.ProximityAlertTriggered != nil:
		p := m.ProximityAlertTriggered
		return fmt.Sprintf("[%s is within %d m of %s]", nameOf(&p.Traveler), p.Distance, nameOf(&p.Watcher))
	case m.VideoChatScheduled != nil:
		return "[video chat scheduled for " + atTime(m.VideoChatScheduled.StartDate) + "]"
	case m.VideoChatEnded != nil:
		return "[video chat ended after " + inTime(m.VideoChatEnded.Duration) + "]"
	case m.VideoChatParticipantsInvited != nil:
		return "[invited to the video chat: " + namesOf(m.VideoChatParticipantsInvited.Users) + "]"
	case m.MessageAutoDeleteTimerChanged != nil:
		if after := m.MessageAutoDeleteTimerChanged.MessageAutoDeleteTime; after > 0 {
			return "[messages are now deleted after " + inTime(after) + "]"
		}
		return "[messages are no longer deleted automatically]"
	case m.BoostAdded != nil:
		return "[boosted the chat: " + text.Counted(m.BoostAdded.BoostCount, "boost") + "]"
	case m.UsersShared != nil:
		var users []string
		for _, u := range m.UsersShared.Users {
			users = append(users, withUsername(cmp.Or(fullName(u.FirstName, u.LastName), id(u.UserID)), u.Username))
		}
		return "[shared users: " + strings.Join(users, ", ") + "]"
	case m.ChatShared != nil:
		return "[shared chat: " + withUsername(cmp.Or(m.ChatShared.Title, id(m.ChatShared.ChatID)),
			m.ChatShared.Username) + "]"
	case m.ChatOwnerChanged != nil:
		return "[new owner of the chat: " + nameOf(&m.ChatOwnerChanged.NewOwner) + "]"
	case m.PollOptionAdded != nil:
		return "[added to the poll: " + m.PollOptionAdded.OptionText + "]"
	case m.PollOptionDeleted != nil:
		return "[deleted from the poll: " + m.PollOptionDeleted.OptionText + "]"
	case m.ConnectedWebsite != "":
		return "[logged in on the website " + m.ConnectedWebsite + "]"
	}
	return cmp.Or(describeTasks(m), describePayment(m), describeGiveaway(m))
}

// describeTasks describes a change of a checklist.
func describeTasks(m *models.Message) string {
	switch {
	case m.ChecklistTasksAdded != nil:
		var added []string
		for i := range m.ChecklistTasksAdded.Tasks {
			task := &m.ChecklistTasksAdded.Tasks[i]
			added = append(added, fmt.Sprintf("%d. %s", task.ID, task.Text))
		}
		return "[added to the checklist" + checklistTitle(m.ChecklistTasksAdded.ChecklistMessage) + ": " +
			strings.Join(added, ", ") + "]"
	case m.ChecklistTasksDone != nil:
		d := m.ChecklistTasksDone
		words := "[checklist" + checklistTitle(d.ChecklistMessage)
		if len(d.MarkedAsDoneTaskIDs) > 0 {
			words += "; done: " + taskNames(d.ChecklistMessage, d.MarkedAsDoneTaskIDs)
		}
		if len(d.MarkedAsNotDoneTaskIDs) > 0 {
			words += "; no longer done: " + taskNames(d.ChecklistMessage, d.MarkedAsNotDoneTaskIDs)
		}
		return words + "]"
	}
	return ""
}

func checklistTitle(m *models.Message) string {
	if m == nil || m.Checklist == nil {
		return ""
	}
	return " “" + m.Checklist.Title + "”"
}

// taskNames names tasks of the checklist in a message, which may be unknown.
func taskNames(m *models.Message, ids []int) string {
	var names []string
	for _, number := range ids {
		name := fmt.Sprintf("task %d", number)
		if m != nil && m.Checklist != nil {
			for i := range m.Checklist.Tasks {
				if task := &m.Checklist.Tasks[i]; task.ID == number {
					name = fmt.Sprintf("%d. %s", task.ID, task.Text)
				}
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// describePayment describes a payment, a gift, or a change of a price.
func describePayment(m *models.Message) string {
	switch {
	case m.SuccessfulPayment != nil:
		return "[payment of " + amount(m.SuccessfulPayment.TotalAmount, m.SuccessfulPayment.Currency) + "]"
	case m.RefundedPayment != nil:
		return "[refunded payment of " + amount(m.RefundedPayment.TotalAmount, m.RefundedPayment.Currency) + "]"
	case m.UniqueGift != nil:
		g := m.UniqueGift
		return fmt.Sprintf("[unique gift: %s #%d%s]", g.Gift.BaseName, g.Gift.Number, prefixed(", ", g.Text))
	case m.GiftUpgradeSent != nil:
		return fmt.Sprintf("[upgrade of a gift worth %d stars%s]", m.GiftUpgradeSent.Gift.StarCount,
			prefixed(": ", m.GiftUpgradeSent.Text))
	case m.PaidMessagePriceChanged != nil:
		return fmt.Sprintf("[a message here now costs %d stars]", m.PaidMessagePriceChanged.PaidMessageStarCount)
	case m.DirectMessagePriceChanged != nil && m.DirectMessagePriceChanged.AreDirectMessagesEnabled:
		return fmt.Sprintf("[a direct message to the channel now costs %d stars]",
			m.DirectMessagePriceChanged.DirectMessageStarCount)
	case m.DirectMessagePriceChanged != nil:
		return "[direct messages to the channel are now disabled]"
	case m.SuggestedPostApproved != nil:
		return "[suggested post approved" + postPrice(m.SuggestedPostApproved.Price) +
			prefixed(", to be sent at ", atTime(m.SuggestedPostApproved.SendDate)) + "]"
	case m.SuggestedPostApprovalFailed != nil:
		return "[suggested post not approved, for lack of stars or money" +
			postPrice(m.SuggestedPostApprovalFailed.Price) + "]"
	case m.SuggestedPostDeclined != nil:
		return "[suggested post declined" + prefixed(": ", m.SuggestedPostDeclined.Comment) + "]"
	case m.SuggestedPostPaid != nil && m.SuggestedPostPaid.StarAmount != nil:
		return "[suggested post paid: " + amount(m.SuggestedPostPaid.StarAmount.Amount, "XTR") + "]"
	case m.SuggestedPostPaid != nil:
		return "[suggested post paid: " + amount(m.SuggestedPostPaid.Amount, m.SuggestedPostPaid.Currency) + "]"
	case m.SuggestedPostRefunded != nil:
		return "[suggested post refunded" + prefixed(": ",
			strings.ReplaceAll(m.SuggestedPostRefunded.Reason, "_", " ")) + "]"
	}
	return ""
}

func postPrice(p *models.SuggestedPostPrice) string {
	if p == nil {
		return ""
	}
	return ", for " + amount(p.Amount, p.Currency)
}

// describeGiveaway describes the progress of a giveaway.
func describeGiveaway(m *models.Message) string {
	switch {
	case m.GiveawayCreated != nil && m.GiveawayCreated.PrizeStarCount > 0:
		return fmt.Sprintf("[giveaway of %d stars created]", m.GiveawayCreated.PrizeStarCount)
	case m.GiveawayWinners != nil:
		w := m.GiveawayWinners
		return fmt.Sprintf("[giveaway won by %s%s]", cmp.Or(namesOf(w.Winners), text.Counted(w.WinnerCount, "user")),
			prefixed(": ", w.PrizeDescription))
	case m.GiveawayCompleted != nil:
		return "[giveaway completed with " + text.Counted(m.GiveawayCompleted.WinnerCount, "winner") + "]"
	}
	return ""
}

// pinnedText returns what a pinned message says.
func pinnedText(m *models.MaybeInaccessibleMessage) string {
	if m.Message == nil {
		return "one that a bot cannot see"
	}
	pinned := m.Message
	says := cmp.Or(pinned.Text, pinned.Caption, describe(pinned), fileWords(pinned), "one without text")
	return text.Clip(text.OneLine(says), maxNamed)
}

// prefixed returns a text after a prefix, or "" if it is empty.
func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func namesOf(users []models.User) string {
	var names []string
	for i := range users {
		names = append(names, nameOf(&users[i]))
	}
	return strings.Join(names, ", ")
}

// atTime returns a time in seconds since 1970 in words, or "" for 0.
func atTime(seconds int) string {
	if seconds == 0 {
		return ""
	}
	return time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339)
}

// inTime returns a duration in seconds in words.
func inTime(seconds int) string {
	s := (time.Duration(seconds) * time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// amount formats a price that is given in the smallest units of its currency.
func amount(units int, currency string) string {
	if currency == "XTR" {
		return text.Counted(units, "star")
	}
	return fmt.Sprintf("%d in the smallest units of %s", units, currency)
}
