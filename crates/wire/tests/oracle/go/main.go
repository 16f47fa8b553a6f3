// SPDX-License-Identifier: Apache-2.0

// Answers of go-pfcp about PFCP: one line for each question on standard input.
//
//	build NAME    a message of tests/packets, as hex
//	go-pfcp HEX   the message that go-pfcp reads and writes again from the values it found, as hex;
//	              behind it the numbers of IEs that it keeps as octets or misreads, or "-"
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/wmnsk/go-pfcp"
	"github.com/wmnsk/go-pfcp/message"
)

var messages = map[string]func() message.Message{
	"association_setup":            associationSetup,
	"establishment":                establishment,
	"report":                       report,
	"modification":                 modification,
	"deletion":                     deletion,
	"pfds":                         pfds,
	"path_control":                 pathControl,
	"path_report":                  pathReport,
	"heartbeat":                    heartbeat,
	"heartbeat_response":           heartbeatResponse,
	"heartbeat_from":               heartbeatFrom,
	"association_kept":             associationKept,
	"association_of_a_set":         associationOfASet,
	"association_update_release":   associationUpdateRelease,
	"association_update_told":      associationUpdateTold,
	"association_update_response":  associationUpdateResponse,
	"association_release":          associationRelease,
	"association_release_response": associationReleaseResponse,
	"version_not_supported":        versionNotSupported,
	"pfds_refused":                 pfdsRefused,
	"path_failure":                 pathFailure,
	"path_recovery":                pathRecovery,
	"node_report_refused":          nodeReportRefused,
	"set_deletion":                 setDeletion,
	"set_deletion_of_a_upf":        setDeletionOfAUpf,
	"set_deletion_refused":         setDeletionRefused,
	"set_deletion_response":        setDeletionResponse,
	"set_modification":             setModification,
	"set_modification_refused":     setModificationRefused,
	"endpoints":                    endpoints,
	"endpoints_changed":            endpointsChanged,
	"addresses":                    addresses,
	"ethernet":                     ethernet,
	"tags":                         tags,
	"charging":                     charging,
	"charging_that_ends":           chargingThatEnds,
	"qos":                          qos,
	"packet_rates":                 packetRates,
	"redirection":                  redirection,
	"redirection_of_both":          redirectionOfBoth,
	"outer_headers":                outerHeaders,
	"unknown_ies":                  unknownIes,
	"slice":                        slice,
	"monitoring":                   monitoring,
	"established":                  established,
	"established_with_addresses":   establishedWithAddresses,
	"refused":                      refused,
	"queried":                      queried,
	"queried_packets":              queriedPackets,
	"told":                         told,
	"told_of_stations":             toldOfStations,
	"ended":                        ended,
	"monitored":                    monitored,
	"buffered":                     buffered,
	"buffered_for_long":            bufferedForLong,
	"redirected":                   redirected,
}

func written(found message.Message) (string, error) {
	bytes := make([]byte, found.MarshalLen())
	if err := found.MarshalTo(bytes); err != nil {
		return "", err
	}
	return hex.EncodeToString(bytes), nil
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
	return again(bytes)
}

func main() {
	pfcp.DisableLogging()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		verb, argument, _ := strings.Cut(lines.Text(), " ")
		text, err := answer(verb, argument)
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Println(text)
	}
}
