// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

const sequence = 0x010203

// Seconds since 1900 as an instant.
func instant(seconds int64) time.Time {
	return time.Unix(seconds-2208988800, 0)
}

func associationSetup() message.Message {
	return message.NewAssociationSetupResponse(sequence,
		ie.NewNodeID("192.0.2.1", "", ""),
		ie.NewCause(ie.CauseRequestAccepted),
		ie.NewRecoveryTimeStamp(instant(0xe8000001)),
		ie.NewUPFunctionFeatures(0x10, 0x01),
	)
}

func establishment() message.Message {
	return message.NewSessionEstablishmentRequest(0, 0, 0, sequence, 0,
		ie.NewNodeID("192.0.2.1", "", ""),
		ie.NewFSEID(0x0102030405060708, net.ParseIP("192.0.2.1"), nil),
		ie.NewCreatePDR(
			ie.NewPDRID(1),
			ie.NewPrecedence(100),
			ie.NewPDI(
				ie.NewSourceInterface(ie.SrcInterfaceAccess),
				ie.NewFTEID(0x01, 0x01020304, net.ParseIP("192.0.2.2"), nil, 0),
				ie.NewNetworkInstanceFQDN("n3"),
				ie.NewUEIPAddress(0x02, "10.0.0.1", "", 0, 0),
				ie.NewSDFFilter("permit out ip from any to assigned", "\xb8\xfc", "\x0a\x0b\x0c\x0d", "\x01\x23\x45", 3),
				ie.NewQFI(9),
			),
			// NewOuterHeaderRemoval writes the octet that deletes extension headers, always.
			ie.New(ie.OuterHeaderRemoval, []byte{6}),
			ie.NewFARID(1),
			ie.NewURRID(1),
			ie.NewQERID(1),
		),
		ie.NewCreateFAR(
			ie.NewFARID(1),
			ie.NewApplyAction(0x02),
			ie.NewForwardingParameters(
				ie.NewDestinationInterface(ie.DstInterfaceCore),
				ie.NewOuterHeaderCreation(0x0100, 7, "192.0.2.3", "", 0, 0, 0),
			),
		),
		ie.NewCreateURR(
			ie.NewURRID(1),
			ie.NewMeasurementMethod(0, 1, 0),
			ie.NewReportingTriggers(0x02, 0x01),
			ie.NewVolumeThreshold(0x01, 1<<40, 0, 0),
			ie.NewVolumeQuota(0x01, 1<<41, 0, 0),
		),
		ie.NewCreateQER(
			ie.NewQERID(1),
			ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusClosed),
			ie.NewMBR(5000000, 5000000000),
			ie.NewQFI(9),
		),
	)
}

func report() message.Message {
	return message.NewSessionReportRequest(0, 0, 7, sequence, 0,
		ie.NewReportType(0, 0, 1, 1),
		ie.NewDownlinkDataReport(ie.NewPDRID(2)),
		ie.NewUsageReportWithinSessionReportRequest(
			ie.NewURRID(1),
			ie.NewURSEQN(3),
			ie.NewUsageReportTrigger(0x02, 0x00),
			ie.NewStartTime(instant(0xe8000001)),
			ie.NewEndTime(instant(0xe8000003)),
			ie.NewVolumeMeasurement(0x07, 3<<40, 1<<40, 2<<40, 0, 0, 0),
			ie.NewDurationMeasurement(2*time.Second),
		),
	)
}

func modification() message.Message {
	return message.NewSessionModificationRequest(0, 0, 7, sequence, 0,
		ie.NewRemovePDR(ie.NewPDRID(2)),
		ie.NewCreateBAR(
			ie.NewBARID(1),
			ie.NewDownlinkDataNotificationDelay(150*time.Millisecond),
			ie.NewSuggestedBufferingPacketsCount(20),
		),
		ie.NewUpdateFAR(
			ie.NewFARID(1),
			ie.NewApplyAction(0x02),
			ie.NewUpdateForwardingParameters(
				ie.NewDestinationInterface(ie.DstInterfaceAccess),
				ie.NewOuterHeaderCreation(0x0100, 8, "192.0.2.4", "", 0, 0, 0),
				ie.NewPFCPSMReqFlags(0x02),
			),
			ie.NewBARID(1),
		),
		ie.NewQueryURR(ie.NewURRID(1)),
	)
}

func deletion() message.Message {
	return message.NewSessionDeletionResponse(0, 0, 7, sequence, 0,
		ie.NewCause(ie.CauseRequestAccepted),
		ie.NewUsageReportWithinSessionDeletionResponse(
			ie.NewURRID(1),
			ie.NewURSEQN(4),
			ie.NewUsageReportTrigger(0x00, 0x08),
			ie.NewStartTime(instant(0xe8000001)),
			ie.NewEndTime(instant(0xe8000003)),
			ie.NewVolumeMeasurement(0x07, 3, 1, 2, 0, 0, 0),
		),
	)
}

func pfds() message.Message {
	return message.NewPFDManagementRequest(sequence,
		ie.NewApplicationIDsPFDs(
			ie.NewApplicationID("video"),
			ie.NewPFDContext(
				ie.NewPFDContents("permit out 6 from 192.0.2.0/24 443 to assigned",
					"https://example.com/video", "example.com", "", "", nil, nil, nil),
			),
		),
	)
}

func pathControl() message.Message {
	return message.NewAssociationUpdateRequest(sequence,
		ie.NewNodeID("192.0.2.1", "", ""),
		ie.NewGTPUPathQoSControlInformation(
			ie.NewRemoteGTPUPeer(0x02, "192.0.2.3", "", 0, ""),
			ie.NewGTPUPathInterfaceType(1, 0),
			ie.NewQoSReportTrigger(0, 1, 1),
			ie.NewTransportLevelMarking(46<<10|0xfc),
			ie.NewTransportLevelMarking(10<<10|0xfc),
			ie.NewMeasurementPeriod(time.Minute),
			ie.NewAveragePacketDelay(5*time.Millisecond),
			ie.NewMinimumPacketDelay(3*time.Millisecond),
			ie.NewMaximumPacketDelay(258*time.Millisecond),
			ie.NewTimer(20*time.Second),
		),
	)
}

func pathReport() message.Message {
	return message.NewNodeReportRequest(sequence,
		ie.NewNodeID("192.0.2.1", "", ""),
		ie.NewNodeReportType(0x08),
		ie.NewGTPUPathQoSReport(
			ie.NewRemoteGTPUPeer(0x02, "192.0.2.3", "", 0, ""),
			ie.NewGTPUPathInterfaceType(0, 1),
			ie.NewQoSReportTrigger(1, 0, 0),
			ie.NewEventTimeStamp(instant(0xe8000003)),
			ie.NewStartTime(instant(0xe8000001)),
			ie.NewQoSInformationInGTPUPathQoSReport(
				ie.NewAveragePacketDelay(4*time.Millisecond),
				ie.NewMinimumPacketDelay(time.Millisecond),
				ie.NewMaximumPacketDelay(70*time.Second),
				ie.NewTransportLevelMarking(46<<10|0xfc),
			),
		),
	)
}
