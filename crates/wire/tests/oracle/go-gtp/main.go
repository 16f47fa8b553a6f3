// SPDX-License-Identifier: Apache-2.0

// Answers of go-gtp about GTP-U: one line for each question on standard input.
//
//	build NAME   a message of tests/packets/tunnels.rs, as hex
//	go-gtp HEX   the message that go-gtp reads and writes again from the values it found, as hex;
//	             behind it "-", since it keeps nothing as octets but contents of extension headers
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/wmnsk/go-gtp/gtpv1/ie"
	"github.com/wmnsk/go-gtp/gtpv1/message"
)

const tunnel = 0x01020304

var packet = []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}

func gPdu(content ...byte) message.Message {
	container := message.NewExtensionHeader(message.ExtHeaderTypePDUSessionContainer, content, 0)
	return message.NewTPDUWithExtentionHeader(tunnel, packet, container)
}

func endMarker() message.Message {
	marker := message.NewEndMarker()
	// The constructor takes none, and SetTEID sets a bit that is spare in version 1 (5.1).
	marker.Header.TEID = tunnel
	return marker
}

func errorIndicationOfPort() message.Message {
	indication := message.NewErrorIndication(0, 0,
		ie.NewTEIDDataI(tunnel), ie.NewGSNAddress("2001:db8::3"))
	port := message.NewExtensionHeader(message.ExtHeaderTypeUDPPort, []byte{0xc0, 0x01}, 0)
	if err := indication.AddExtensionHeaders(port); err != nil {
		panic(err)
	}
	return indication
}

func extensionHeaders() message.Message {
	types := ie.NewExtensionHeaderTypeList(0x85, 0x40)
	notification := message.NewSupportedExtensionHeaderNotification(0, 0, types)
	// The constructor does not say that there is one.
	notification.SetSequenceNumber(9)
	return notification
}

var messages = map[string]func() message.Message{
	// go-gtp knows no fields of a PDU session container (TS 38.415, 5.5.2).
	"uplink": func() message.Message {
		return gPdu(0x16, 0x89, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6)
	},
	"downlink": func() message.Message {
		return gPdu(0x0c, 0xbf, 0xe0, 0xe8, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3)
	},
	"bare": func() message.Message { return message.NewTPDU(tunnel, packet) },
	"echo": func() message.Message { return message.NewEchoRequest(5) },
	"echo_response": func() message.Message {
		return message.NewEchoResponse(5, ie.NewRecovery(0))
	},
	"error_indication": func() message.Message {
		return message.NewErrorIndication(0, 0, ie.NewTEIDDataI(7), ie.NewGSNAddress("192.0.2.3"))
	},
	"error_indication_of_port": errorIndicationOfPort,
	"end_marker":               endMarker,
	"extension_headers":        extensionHeaders,
}

func written(found message.Message) (string, error) {
	bytes := make([]byte, found.MarshalLen())
	if err := found.MarshalTo(bytes); err != nil {
		return "", err
	}
	return hex.EncodeToString(bytes), nil
}

// The IEs of a message by their values. Behind their octets, which it keeps, go-gtp has no room for what
// it writes.
func readIEs(found message.Message) {
	switch found := found.(type) {
	case *message.EchoResponse:
		found.Recovery = ie.NewRecovery(found.Recovery.MustRecovery())
	case *message.ErrorIndication:
		found.Payload = nil
		found.TEIDDataI = ie.NewTEIDDataI(found.TEIDDataI.MustTEID())
		found.GTPUPeerAddress = ie.NewGSNAddress(found.GTPUPeerAddress.MustGSNAddress())
	case *message.SupportedExtensionHeaderNotification:
		found.Payload = nil
		types := found.ExtensionHeaderTypeList.MustExtensionHeaderTypeList()
		found.ExtensionHeaderTypeList = ie.NewExtensionHeaderTypeList(types...)
	}
}

func answer(verb, argument string) (text string, err error) {
	// A codec that panics has no answer.
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	if verb == "build" {
		build, isKnown := messages[argument]
		if !isKnown {
			return "", fmt.Errorf("no message %s", argument)
		}
		return written(build())
	}
	bytes, err := hex.DecodeString(argument)
	if err != nil {
		return "", err
	}
	found, err := message.Parse(bytes)
	if err != nil {
		return "", err
	}
	readIEs(found)
	text, err = written(found)
	return text + " -", err
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, argument, _ := strings.Cut(lines.Text(), " ")
		text, err := answer(verb, argument)
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Println(text)
	}
}
