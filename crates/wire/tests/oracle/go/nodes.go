// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

func node() *ie.IE {
	return ie.NewNodeID("192.0.2.1", "", "")
}

func recovery() *ie.IE {
	return ie.NewRecoveryTimeStamp(instant(0xe8000001))
}

func accepted() *ie.IE {
	return ie.NewCause(ie.CauseRequestAccepted)
}

func incorrect() *ie.IE {
	return ie.NewCause(ie.CauseMandatoryIEIncorrect)
}

func heartbeat() message.Message {
	return message.NewHeartbeatRequest(sequence, recovery(), nil)
}

func heartbeatResponse() message.Message {
	return message.NewHeartbeatResponse(sequence, recovery())
}

func heartbeatFrom() message.Message {
	return message.NewHeartbeatRequest(sequence, recovery(),
		ie.NewSourceIPAddress(net.ParseIP("192.0.2.0"), nil, 24))
}

func associationOfASet() message.Message {
	return message.NewAssociationSetupRequest(sequence,
		ie.NewNodeID("", "", "smf.example"),
		recovery(),
		ie.NewCPFunctionFeatures(0x2f),
		ie.NewAlternativeSMFIPAddress(net.ParseIP("192.0.2.9"), net.ParseIP("2001:db8::1")),
		// NewSMFSetID makes no labels of a name (8.2.131).
		ie.NewSMFSetID("\x04set1\x07example"),
	)
}

func associationKept() message.Message {
	return message.NewAssociationSetupResponse(sequence, node(), accepted(), recovery(),
		// NewUPFunctionFeatures writes four octets at most (8.2.25).
		ie.New(ie.UPFunctionFeatures, []byte{0x10, 0x01, 0x04, 0x01, 0x02}),
		ie.NewPFCPASRspFlags(0x01),
	)
}

func associationUpdateRelease() message.Message {
	return message.NewAssociationUpdateRequest(sequence, node(),
		ie.NewPFCPAssociationReleaseRequest(1, 0),
		ie.NewGracefulReleasePeriod(20*time.Minute),
	)
}

func associationUpdateTold() message.Message {
	return message.NewAssociationUpdateRequest(sequence, node(),
		ie.NewPFCPAssociationReleaseRequest(0, 1),
		ie.NewPFCPAUReqFlags(1),
	)
}

func associationUpdateResponse() message.Message {
	return message.NewAssociationUpdateResponse(sequence,
		ie.NewNodeID("", "2001:db8::1", ""), accepted(), ie.NewCPFunctionFeatures(0x03))
}

func associationRelease() message.Message {
	return message.NewAssociationReleaseRequest(sequence, node())
}

func associationReleaseResponse() message.Message {
	return message.NewAssociationReleaseResponse(sequence, node(), accepted())
}

func versionNotSupported() message.Message {
	return message.NewVersionNotSupportedResponse(sequence)
}

func pfdsRefused() message.Message {
	return message.NewPFDManagementResponse(sequence, incorrect(), ie.NewOffendingIE(ie.PFDContents))
}

func pathFailure() message.Message {
	return message.NewNodeReportRequest(sequence, node(),
		ie.NewNodeReportType(0x01),
		ie.NewUserPlanePathFailureReport(ie.NewRemoteGTPUPeer(0x03, "192.0.2.3", "2001:db8::3", 0, "")),
	)
}

func pathRecovery() message.Message {
	return message.NewNodeReportRequest(sequence, node(),
		ie.NewNodeReportType(0x02),
		ie.NewUserPlanePathRecoveryReport(ie.NewRemoteGTPUPeer(0x0e, "192.0.2.3", "", 0, "n3.example")),
	)
}

func nodeReportRefused() message.Message {
	return message.NewNodeReportResponse(sequence, node(), incorrect(), ie.NewOffendingIE(ie.NodeReportType))
}

func setDeletion() message.Message {
	return message.NewSessionSetDeletionRequest(sequence, node(), ie.NewFQCSID("192.0.2.1", 1, 0x102))
}

func setDeletionOfAUpf() message.Message {
	set := ie.NewFQCSID("2001:db8::1", 7)
	// The node's type, which NewFQCSID does not write (8.2.43).
	return message.NewSessionSetDeletionRequest(sequence, node(), ie.New(ie.FQCSID, append(set.Payload, 5)))
}

func setDeletionRefused() message.Message {
	return message.NewSessionSetDeletionResponse(sequence, node(), incorrect(), ie.NewOffendingIE(ie.FQCSID))
}

func setDeletionResponse() message.Message {
	return message.NewSessionSetDeletionResponse(sequence, node(), accepted(), nil)
}

// Session Set Modification came with release 17: the messages and what is in them are written by
// their numbers here.
func setModification() message.Message {
	const sessionChangeInfo, groupID, cpIPAddress = 290, 291, 292
	set := ie.NewFQCSID("192.0.2.1", 1)
	other := ie.NewAlternativeSMFIPAddress(net.ParseIP("192.0.2.9"), nil)
	other.Payload[0] |= 0x04
	var change []byte
	for _, one := range []*ie.IE{
		ie.New(ie.FQCSID, append(set.Payload, 2)),
		ie.New(groupID, []byte("group")),
		ie.New(cpIPAddress, []byte{2, 192, 0, 2, 8}),
		other,
	} {
		bytes, err := one.Marshal()
		if err != nil {
			panic(err)
		}
		change = append(change, bytes...)
	}
	return message.NewGenericWithoutSEID(16, sequence, node(), ie.New(sessionChangeInfo, change))
}

func setModificationRefused() message.Message {
	return message.NewGenericWithoutSEID(17, sequence, node(), incorrect(), ie.NewOffendingIE(290))
}
