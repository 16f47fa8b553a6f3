// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

func establish(rules ...*ie.IE) message.Message {
	first := []*ie.IE{node(), ie.NewFSEID(0x0102030405060708, net.ParseIP("192.0.2.1"), nil)}
	return message.NewSessionEstablishmentRequest(0, 0, 0, sequence, 0, append(first, rules...)...)
}

func modify(rules ...*ie.IE) message.Message {
	return message.NewSessionModificationRequest(0, 0, 7, sequence, 0, rules...)
}

func pdr(id uint16, detection ...*ie.IE) *ie.IE {
	return ie.NewCreatePDR(ie.NewPDRID(id), ie.NewPrecedence(uint32(id)), ie.NewPDI(detection...), ie.NewFARID(1))
}

func far(id uint32, parameters ...*ie.IE) *ie.IE {
	parameters = append([]*ie.IE{ie.NewDestinationInterface(ie.DstInterfaceCore)}, parameters...)
	return ie.NewCreateFAR(ie.NewFARID(id), ie.NewApplyAction(0x02), ie.NewForwardingParameters(parameters...))
}

func dropAll() *ie.IE {
	return ie.NewCreateFAR(ie.NewFARID(1), ie.NewApplyAction(0x01))
}

func endpoints() message.Message {
	return establish(
		pdr(1, ie.NewSourceInterface(ie.SrcInterfaceAccess), ie.NewTrafficEndpointID(1), ie.NewQFI(9)),
		pdr(2, ie.NewSourceInterface(ie.SrcInterfaceCore), ie.NewTrafficEndpointID(2)),
		dropAll(),
		ie.NewCreateTrafficEndpoint(
			ie.NewTrafficEndpointID(1),
			ie.NewFTEID(0x0f, 0, nil, nil, 5),
			ie.NewNetworkInstanceFQDN("n3"),
			ie.NewTGPPInterfaceType(11),
		),
		ie.NewCreateTrafficEndpoint(
			ie.NewTrafficEndpointID(2),
			ie.NewUEIPAddress(0x07, "10.0.0.1", "2001:db8::5", 0, 0),
			ie.NewFramedRoute("192.168.1.0/24 0.0.0.0 1"),
			ie.NewFramedRouting(3),
			ie.NewFramedIPv6Route("2001:db8:7::/48 :: 1"),
		),
	)
}

func endpointsChanged() message.Message {
	return modify(
		ie.NewRemoveTrafficEndpoint(ie.NewTrafficEndpointID(2)),
		ie.NewUpdateTrafficEndpoint(
			ie.NewTrafficEndpointID(1),
			ie.NewFTEID(0x03, 0x01020304, net.ParseIP("192.0.2.2"), net.ParseIP("2001:db8::5"), 0),
			ie.NewNetworkInstanceFQDN("n9"),
			ie.NewQFI(5),
		),
	)
}

func addresses() message.Message {
	core := ie.NewSourceInterface(ie.SrcInterfaceCore)
	return establish(
		ie.NewCreatePDR(
			ie.NewPDRID(1),
			ie.NewPrecedence(1),
			ie.NewPDI(core, ie.NewUEIPAddress(0x34, "", "", 0, 0)),
			ie.NewFARID(1),
			// NewUEIPAddressPoolIdentity writes a length of one octet, and not of two (8.2.128).
			ie.New(ie.UEIPAddressPoolIdentity, []byte("\x00\x04pool")),
		),
		pdr(2, core, ie.NewUEIPAddress(0x09, "", "2001:db8::5", 8, 0)),
		pdr(3, core, ie.NewUEIPAddress(0x41, "", "2001:db8::5", 0, 128)),
		dropAll(),
		ie.NewPFCPSEReqFlags(0x01),
	)
}

func mac(last byte) net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, 0, 0, last}
}

func ethernet() message.Message {
	return establish(
		pdr(1,
			ie.NewSourceInterface(ie.SrcInterfaceAccess),
			ie.NewEthernetPDUSessionInformation(1),
			ie.NewEthernetPacketFilter(
				ie.NewEthernetFilterID(7),
				ie.NewEthernetFilterProperties(1),
				ie.NewMACAddress(mac(1), mac(2), mac(0x11), mac(0x12)),
				ie.NewEthertype(0x0800),
			),
		),
		far(1, ie.NewProxying(1, 1)),
		ie.NewCreateURR(
			ie.NewURRID(1),
			ie.NewMeasurementMethod(1, 0, 0),
			ie.NewReportingTriggers(0x00, 0x08),
			ie.NewEthernetInactivityTimer(time.Minute),
		),
		ie.NewPDNType(ie.PDNTypeEthernet),
	)
}

func tags() message.Message {
	return modify(
		pdr(1,
			ie.NewSourceInterface(ie.SrcInterfaceAccess),
			ie.NewEthernetPacketFilter(
				ie.NewCTAG(0x07, 1, 1, 0x123),
				ie.NewSTAG(0x07, 1, 0, 0xfff),
			),
		),
		far(1, ie.NewOuterHeaderCreation(0xc000, 0, "", "", 0, 0x07f1ff, 0x071923)),
	)
}

func charging() message.Message {
	return modify(ie.NewCreateURR(
		ie.NewURRID(1),
		ie.NewMeasurementMethod(1, 0, 1),
		ie.NewReportingTriggers(0xfd, 0x36),
		ie.NewMeasurementPeriod(time.Hour),
		ie.NewEventThreshold(5),
		ie.NewEventQuota(50),
		ie.NewTimeThreshold(300),
		ie.NewTimeQuota(600*time.Second),
		ie.NewQuotaHoldingTime(30*time.Second),
		ie.NewDroppedDLTrafficThreshold(true, true, 1000, 1<<33),
		ie.NewMonitoringTime(instant(0xe8001000)),
		ie.NewSubsequentVolumeThreshold(0x06, 0, 9, 8),
		ie.NewSubsequentTimeThreshold(301),
		ie.NewSubsequentVolumeQuota(0x05, 17, 0, 8),
		ie.NewSubsequentTimeQuota(601*time.Second),
		ie.NewSubsequentEventThreshold(6),
		ie.NewSubsequentEventQuota(51),
		ie.NewInactivityDetectionTime(20),
		ie.NewLinkedURRID(2),
		ie.NewMeasurementInformation(0x0e),
		ie.NewTimeQuotaMechanism(1, 15*time.Second),
		ie.NewAggregatedURRs(
			ie.NewAggregatedURRID(3),
			// Minus one, which the constructor has no sign for.
			ie.NewMultiplier(25, 0xffffffff),
		),
		ie.NewFARID(1),
		ie.NewAdditionalMonitoringTime(
			ie.NewMonitoringTime(instant(0xe8002000)),
			ie.NewSubsequentTimeQuota(602*time.Second),
			ie.NewEventQuota(52),
		),
	))
}

func chargingThatEnds() message.Message {
	return modify(ie.NewCreateURR(
		ie.NewURRID(1),
		ie.NewMeasurementMethod(0, 1, 0),
		ie.NewReportingTriggers(0x00, 0x80, 0x01),
		// NewQuotaValidityTime takes an instant, where the IE has a duration (8.2.132).
		ie.NewQuotaValidityTime(instant(86400)),
		ie.NewNumberOfReports(3),
		ie.NewMeasurementInformation(0x10),
	))
}

func qos() message.Message {
	return modify(ie.NewCreateQER(
		ie.NewQERID(1),
		ie.NewQERCorrelationID(0x0a0b0c0d),
		ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen),
		ie.NewGBR(1, 0x0102030405),
		ie.NewPacketRate(0x03, 0, 10, 3, 0x0102),
		ie.NewDLFlowLevelMarking(0x03, 0xb8fc, 0x0700),
		ie.NewQFI(63),
		ie.NewRQI(1),
		ie.NewPagingPolicyIndicator(7),
		ie.NewAveragingWindow(2000),
	))
}

func packetRates() message.Message {
	return modify(ie.NewCreateQER(
		ie.NewQERID(1),
		ie.NewGateStatus(ie.GateStatusOpen, ie.GateStatusOpen),
		// NewPacketRate has no additional rates (8.2.63).
		ie.New(ie.PacketRate, []byte{0x07, 0, 0, 10, 3, 1, 2, 3, 1, 2, 0, 0, 10}),
		// NewPacketRateStatus writes seconds as a number of 64 bits, and no time stamp of NTP (8.2.139).
		ie.New(ie.PacketRateStatus, []byte{0x07, 0, 1, 0, 2, 0, 3, 0, 4, 0xe8, 0, 0, 1, 0, 0, 0, 0}),
		ie.NewQERControlIndications(0, 0, 1),
	))
}

func redirection() message.Message {
	return modify(far(1,
		// NewRedirectInformation writes the length of a second address, always (8.2.20).
		ie.New(ie.RedirectInformation, []byte("\x02\x00\x16http://portal.example/")),
		ie.NewTransportLevelMarking(0x28fc),
		ie.NewForwardingPolicy("policy"),
		ie.NewHeaderEnrichment(0, "X-Name", "value"),
	))
}

func redirectionOfBoth() message.Message {
	return modify(far(1, ie.NewRedirectInformation(4, "192.0.2.5", "2001:db8::5")))
}

func outerHeaders() message.Message {
	const v4, v6, port = "192.0.2.5", "2001:db8::5", 4789
	return modify(
		far(1, ie.NewOuterHeaderCreation(0x0200, 7, "", v6, 0, 0, 0)),
		far(2, ie.NewOuterHeaderCreation(0x0400, 0, v4, "", port, 0, 0)),
		far(3, ie.NewOuterHeaderCreation(0x0800, 0, "", v6, port, 0, 0)),
		far(4, ie.NewOuterHeaderCreation(0x1000, 0, v4, "", 0, 0, 0)),
		far(5, ie.NewOuterHeaderCreation(0x2000, 0, "", v6, 0, 0, 0)),
	)
}

func unknownIes() message.Message {
	return establish(
		pdr(1, ie.NewSourceInterface(ie.SrcInterfaceCPFunction)),
		dropAll(),
		ie.NewUserPlaneInactivityTimer(30*time.Minute),
		ie.NewUserID(0x01, "001010123456789", "", "", ""),
		ie.NewTraceInformation("001", "01", "\x00\x00\x01", []byte{2}, 3, []byte{4}, net.ParseIP("192.0.2.7")),
		ie.NewAPNDNN("internet"),
		ie.New(0x7000, []byte("what?")),
		ie.NewVendorSpecificIE(0x8001, 32473, []byte("vendor")),
	)
}

func slice() message.Message {
	return modify(ie.NewSNSSAI(1, 0x010203))
}

func monitoring() message.Message {
	return modify(
		ie.NewRemoveSRR(ie.NewSRRID(2)),
		ie.NewCreateSRR(
			ie.NewSRRID(1),
			ie.NewQoSMonitoringPerQoSFlowControlInformation(
				ie.NewQFI(9),
				ie.NewRequestedQoSMonitoring(1, 1, 1),
				ie.NewReportingFrequency(0, 1, 1),
				ie.NewPacketDelayThresholds(0x07, 10, 20, 70000),
				ie.NewMinimumWaitTime(5*time.Second),
				ie.NewMeasurementPeriod(time.Minute),
			),
		),
	)
}
