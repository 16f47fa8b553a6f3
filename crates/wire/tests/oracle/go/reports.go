// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

func tunnel() *ie.IE {
	return ie.NewFTEID(0x01, 0x01020304, net.ParseIP("192.0.2.2"), nil, 0)
}

func established() message.Message {
	v6 := net.ParseIP("2001:db8::5")
	return message.NewSessionEstablishmentResponse(0, 0, 7, sequence, 0,
		node(), accepted(),
		ie.NewFSEID(0x0807060504030201, net.ParseIP("192.0.2.1"), v6),
		ie.NewCreatedPDR(ie.NewPDRID(1), tunnel()),
		ie.NewCreatedPDR(ie.NewPDRID(2), ie.NewFTEID(0x02, 0x01020305, nil, v6, 0)),
		ie.NewLoadControlInformation(ie.NewSequenceNumber(0xe8000002), ie.NewMetric(40)),
		ie.NewOverloadControlInformation(
			ie.NewSequenceNumber(0xe8000003),
			ie.NewMetric(60),
			ie.NewTimer(40*time.Second),
			ie.NewOCIFlags(1),
		),
		ie.NewCreatedTrafficEndpoint(ie.NewTrafficEndpointID(1), tunnel()),
	)
}

func establishedWithAddresses() message.Message {
	set := ie.NewFQCSID("192.0.2.1", 1)
	return message.NewSessionEstablishmentResponse(0, 0, 7, sequence, 0,
		node(), accepted(),
		ie.NewCreatedPDR(ie.NewPDRID(1), ie.NewUEIPAddress(0x47, "10.0.0.1", "2001:db8::5", 0, 56)),
		ie.New(ie.FQCSID, append(set.Payload, 5)),
	)
}

func refused() message.Message {
	return message.NewSessionModificationResponse(0, 0, 7, sequence, 0,
		ie.NewCause(ie.CauseRuleCreationModificationFailure),
		ie.NewFailedRuleID(ie.RuleIDTypePDR, 0x0203),
	)
}

func usage(group uint16, trigger *ie.IE, more ...*ie.IE) *ie.IE {
	first := []*ie.IE{
		ie.NewURRID(1), ie.NewURSEQN(3), trigger,
		ie.NewStartTime(instant(0xe8000001)), ie.NewEndTime(instant(0xe8000003)),
	}
	return ie.NewUsageReport(group, append(first, more...)...)
}

func queried() message.Message {
	side := func(before, after int) *ie.IE {
		return usage(ie.UsageReportWithinSessionModificationResponse,
			ie.NewUsageReportTrigger(0x80, 0x10),
			ie.NewVolumeMeasurement(0x06, 0, 1<<40, 2, 0, 0, 0),
			ie.NewDurationMeasurement(2*time.Second),
			ie.NewTimeOfFirstPacket(instant(0xe8000001)),
			ie.NewTimeOfLastPacket(instant(0xe8000002)),
			ie.NewUsageInformation(before, after, 1, 0),
			ie.NewQueryURRReference(0x0a0b0c0d),
		)
	}
	return message.NewSessionModificationResponse(0, 0, 7, sequence, 0,
		accepted(),
		ie.NewCreatedPDR(ie.NewPDRID(1), tunnel()),
		side(1, 0), side(0, 1),
		// NewAdditionalUsageReportsInformation sets the bit that stands for no number (8.2.91).
		ie.New(ie.AdditionalUsageReportsInformation, []byte{1, 0x2c}),
	)
}

func queriedPackets() message.Message {
	return message.NewSessionModificationResponse(0, 0, 7, sequence, 0,
		accepted(),
		usage(ie.UsageReportWithinSessionModificationResponse,
			ie.NewUsageReportTrigger(0, 0, 0x09),
			ie.NewVolumeMeasurement(0x3f, 7, 3, 4, 0x10, 6, 10),
		),
		ie.New(ie.AdditionalUsageReportsInformation, []byte{0x80, 0}),
		ie.NewPacketRateStatusReportWithinSessionModificationResponse(
			ie.NewQERID(1),
			ie.New(ie.PacketRateStatus, []byte{0x02, 0, 3, 0xe8, 0, 0, 1, 0, 0, 0, 0}),
		),
	)
}

func told() message.Message {
	return message.NewSessionReportRequest(0, 0, 7, sequence, 0,
		ie.NewReportType(1, 1, 1, 1),
		ie.NewDownlinkDataReport(
			ie.NewPDRID(2),
			ie.NewDownlinkDataServiceInformation(true, true, 46, 9),
		),
		usage(ie.UsageReportWithinSessionReportRequest,
			ie.NewUsageReportTrigger(0x10, 0),
			ie.NewApplicationDetectionInformation(
				ie.NewApplicationID("video"),
				ie.NewApplicationInstanceID("1"),
				ie.NewFlowInformation(3, "permit out 17 from 192.0.2.5 443 to 10.0.0.1 4000"),
			),
			ie.NewNetworkInstanceFQDN("n6"),
			ie.NewEventTimeStamp(instant(0xe8000002)),
		),
		ie.NewErrorIndicationReport(tunnel()),
	)
}

func toldOfStations() message.Message {
	noTag := ie.New(ie.CTAG, nil)
	return message.NewSessionReportRequest(0, 0, 7, sequence, 0,
		ie.NewReportType(0, 0, 1, 1),
		ie.NewDownlinkDataReport(ie.NewPDRID(2), ie.NewDataStatus(0x02)),
		usage(ie.UsageReportWithinSessionReportRequest,
			ie.NewUsageReportTrigger(0, 0x40),
			ie.NewEthernetTrafficInformation(
				ie.NewMACAddressesDetected(ie.NewCTAG(0x05, 1, 0, 0x123), noTag, mac(1), mac(2)),
				ie.NewMACAddressesRemoved(noTag, noTag, mac(3)),
			),
		),
	)
}

func ended() message.Message {
	return message.NewSessionReportRequest(0, 0, 7, sequence, 0,
		// NewReportType knows no request for a session (8.2.21).
		ie.New(ie.ReportType, []byte{0x40}),
		ie.NewPFCPSRReqFlags(1),
	)
}

func monitored() message.Message {
	return message.NewSessionReportRequest(0, 0, 7, sequence, 0,
		// NewReportType knows no session report (8.2.21).
		ie.New(ie.ReportType, []byte{0x20}),
		ie.NewSessionReport(
			ie.NewSRRID(1),
			ie.NewQoSMonitoringReport(
				ie.NewQFI(9),
				ie.NewQoSMonitoringMeasurement(0x07, 11, 21, 70001),
				ie.NewEventTimeStamp(instant(0xe8000003)),
				ie.NewStartTime(instant(0xe8000001)),
			),
		),
	)
}

func holding(count uint16) message.Message {
	return message.NewSessionReportResponse(0, 0, 7, sequence, 0,
		accepted(),
		ie.NewUpdateBARWithinSessionReportResponse(
			ie.NewBARID(1),
			ie.NewDownlinkDataNotificationDelay(150*time.Millisecond),
			ie.NewDLBufferingDuration(10*time.Minute),
			ie.NewDLBufferingSuggestedPacketCount(count),
			ie.NewSuggestedBufferingPacketsCount(20),
		),
		ie.NewPFCPSRRspFlags(1),
	)
}

func buffered() message.Message {
	return holding(200)
}

func bufferedForLong() message.Message {
	return holding(300)
}

func redirected() message.Message {
	return message.NewSessionReportResponse(0, 0, 7, sequence, 0,
		ie.NewCause(78),
		ie.NewFSEID(9, net.ParseIP("192.0.2.9"), nil),
		ie.NewAlternativeSMFIPAddress(nil, net.ParseIP("2001:db8::5")),
	)
}
