// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// What go-pfcp finds in an IE, written again.
type reader func(*ie.IE) (*ie.IE, error)

// An IE of one value, with the constructor that takes it.
func of[T any](read func(*ie.IE) (T, error), write func(T) *ie.IE) reader {
	return func(i *ie.IE) (*ie.IE, error) {
		value, err := read(i)
		if err != nil {
			return nil, err
		}
		return write(value), nil
	}
}

// An IE of several values, in a structure that writes itself.
func fields[T interface{ Marshal() ([]byte, error) }](read func(*ie.IE) (T, error)) reader {
	return func(i *ie.IE) (*ie.IE, error) {
		value, err := read(i)
		if err != nil {
			return nil, err
		}
		bytes, err := value.Marshal()
		return ie.New(i.Type, bytes), err
	}
}

// Flags of one octet, whose constructors take each flag.
func octet(read func(*ie.IE) (uint8, error)) reader {
	return func(i *ie.IE) (*ie.IE, error) {
		value, err := read(i)
		return ie.New(i.Type, []byte{value}), err
	}
}

// Two values of one octet or two numbers, and how they are written.
func pair[T, U any](first func(*ie.IE) (T, error), second func(*ie.IE) (U, error), write func(T, U) *ie.IE) reader {
	return func(i *ie.IE) (*ie.IE, error) {
		one, err := first(i)
		if err != nil {
			return nil, err
		}
		other, err := second(i)
		if err != nil {
			return nil, err
		}
		return write(one, other), nil
	}
}

var readers = map[uint16]reader{
	ie.PFCPASRspFlags:                of((*ie.IE).PFCPASRspFlags, ie.NewPFCPASRspFlags),
	ie.PFCPSEReqFlags:                of((*ie.IE).PFCPSEReqFlags, ie.NewPFCPSEReqFlags),
	ie.Cause:                         of((*ie.IE).Cause, ie.NewCause),
	ie.SourceInterface:               of((*ie.IE).SourceInterface, ie.NewSourceInterface),
	ie.FTEID:                         fields((*ie.IE).FTEID),
	ie.NetworkInstance:               of((*ie.IE).NetworkInstance, ie.NewNetworkInstance),
	ie.SDFFilter:                     fields((*ie.IE).SDFFilter),
	ie.ApplicationID:                 of((*ie.IE).ApplicationID, ie.NewApplicationID),
	ie.GateStatus:                    pair((*ie.IE).GateStatusUL, (*ie.IE).GateStatusDL, ie.NewGateStatus),
	ie.MBR:                           pair((*ie.IE).MBRUL, (*ie.IE).MBRDL, ie.NewMBR),
	ie.GBR:                           pair((*ie.IE).GBRUL, (*ie.IE).GBRDL, ie.NewGBR),
	ie.QERCorrelationID:              of((*ie.IE).QERCorrelationID, ie.NewQERCorrelationID),
	ie.Precedence:                    of((*ie.IE).Precedence, ie.NewPrecedence),
	ie.TransportLevelMarking:         of((*ie.IE).TransportLevelMarking, ie.NewTransportLevelMarking),
	ie.VolumeThreshold:               fields((*ie.IE).VolumeThreshold),
	ie.TimeThreshold:                 of((*ie.IE).TimeThreshold, ie.NewTimeThreshold),
	ie.MonitoringTime:                of((*ie.IE).MonitoringTime, ie.NewMonitoringTime),
	ie.SubsequentVolumeThreshold:     fields((*ie.IE).SubsequentVolumeThreshold),
	ie.SubsequentTimeThreshold:       of((*ie.IE).SubsequentTimeThreshold, ie.NewSubsequentTimeThreshold),
	ie.InactivityDetectionTime:       of((*ie.IE).InactivityDetectionTime, ie.NewInactivityDetectionTime),
	ie.RedirectInformation:           fields((*ie.IE).RedirectInformation),
	ie.ReportType:                    octet((*ie.IE).ReportType),
	ie.OffendingIE:                   of((*ie.IE).OffendingIE, ie.NewOffendingIE),
	ie.ForwardingPolicy:              of((*ie.IE).ForwardingPolicyIdentifier, ie.NewForwardingPolicy),
	ie.DestinationInterface:          of((*ie.IE).DestinationInterface, ie.NewDestinationInterface),
	ie.DownlinkDataNotificationDelay: of((*ie.IE).DownlinkDataNotificationDelay, ie.NewDownlinkDataNotificationDelay),
	ie.DLBufferingDuration:           of((*ie.IE).DLBufferingDuration, ie.NewDLBufferingDuration),
	ie.DLBufferingSuggestedPacketCount: of((*ie.IE).DLBufferingSuggestedPacketCount,
		ie.NewDLBufferingSuggestedPacketCount),
	ie.DownlinkDataServiceInformation: pair((*ie.IE).PPI, (*ie.IE).QFI, func(ppi, qfi uint8) *ie.IE {
		return ie.NewDownlinkDataServiceInformation(true, true, ppi, qfi)
	}),
	ie.PFCPSMReqFlags:                 of((*ie.IE).PFCPSMReqFlags, ie.NewPFCPSMReqFlags),
	ie.PFCPSRRspFlags:                 of((*ie.IE).PFCPSRRspFlags, ie.NewPFCPSRRspFlags),
	ie.SequenceNumber:                 of((*ie.IE).SequenceNumber, ie.NewSequenceNumber),
	ie.Metric:                         of((*ie.IE).Metric, ie.NewMetric),
	ie.Timer:                          of((*ie.IE).Timer, ie.NewTimer),
	ie.PDRID:                          of((*ie.IE).PDRID, ie.NewPDRID),
	ie.FSEID:                          fields((*ie.IE).FSEID),
	ie.NodeID:                         of((*ie.IE).NodeID, ie.NewNodeIDHeuristic),
	ie.PFDContents:                    fields((*ie.IE).PFDContents),
	ie.MeasurementMethod:              octet((*ie.IE).MeasurementMethod),
	ie.MeasurementPeriod:              of((*ie.IE).MeasurementPeriod, ie.NewMeasurementPeriod),
	ie.VolumeMeasurement:              fields((*ie.IE).VolumeMeasurement),
	ie.DurationMeasurement:            of((*ie.IE).DurationMeasurement, ie.NewDurationMeasurement),
	ie.TimeOfFirstPacket:              of((*ie.IE).TimeOfFirstPacket, ie.NewTimeOfFirstPacket),
	ie.TimeOfLastPacket:               of((*ie.IE).TimeOfLastPacket, ie.NewTimeOfLastPacket),
	ie.QuotaHoldingTime:               of((*ie.IE).QuotaHoldingTime, ie.NewQuotaHoldingTime),
	ie.VolumeQuota:                    fields((*ie.IE).VolumeQuota),
	ie.TimeQuota:                      of((*ie.IE).TimeQuota, ie.NewTimeQuota),
	ie.StartTime:                      of((*ie.IE).StartTime, ie.NewStartTime),
	ie.EndTime:                        of((*ie.IE).EndTime, ie.NewEndTime),
	ie.URRID:                          of((*ie.IE).URRID, ie.NewURRID),
	ie.LinkedURRID:                    of((*ie.IE).LinkedURRID, ie.NewLinkedURRID),
	ie.OuterHeaderCreation:            fields((*ie.IE).OuterHeaderCreation),
	ie.BARID:                          of((*ie.IE).BARID, ie.NewBARID),
	ie.CPFunctionFeatures:             of((*ie.IE).CPFunctionFeatures, ie.NewCPFunctionFeatures),
	ie.UsageInformation:               octet((*ie.IE).UsageInformation),
	ie.ApplicationInstanceID:          of((*ie.IE).ApplicationInstanceID, ie.NewApplicationInstanceID),
	ie.FlowInformation:                pair((*ie.IE).FlowDirection, (*ie.IE).FlowDescription, ie.NewFlowInformation),
	ie.UEIPAddress:                    fields((*ie.IE).UEIPAddress),
	ie.PacketRate:                     fields((*ie.IE).PacketRate),
	ie.OuterHeaderRemoval:             octet((*ie.IE).OuterHeaderRemovalDescription),
	ie.RecoveryTimeStamp:              of((*ie.IE).RecoveryTimeStamp, ie.NewRecoveryTimeStamp),
	ie.DLFlowLevelMarking:             fields((*ie.IE).DLFlowLevelMarking),
	ie.HeaderEnrichment:               fields((*ie.IE).HeaderEnrichment),
	ie.MeasurementInformation:         of((*ie.IE).MeasurementInformation, ie.NewMeasurementInformation),
	ie.NodeReportType:                 of((*ie.IE).NodeReportType, ie.NewNodeReportType),
	ie.RemoteGTPUPeer:                 fields((*ie.IE).RemoteGTPUPeer),
	ie.URSEQN:                         of((*ie.IE).URSEQN, ie.NewURSEQN),
	ie.FARID:                          of((*ie.IE).FARID, ie.NewFARID),
	ie.QERID:                          of((*ie.IE).QERID, ie.NewQERID),
	ie.OCIFlags:                       of((*ie.IE).OCIFlags, ie.NewOCIFlags),
	ie.PFCPAssociationReleaseRequest:  octet((*ie.IE).PFCPAssociationReleaseRequest),
	ie.GracefulReleasePeriod:          of((*ie.IE).GracefulReleasePeriod, ie.NewGracefulReleasePeriod),
	ie.PDNType:                        of((*ie.IE).PDNType, ie.NewPDNType),
	ie.FailedRuleID:                   pair((*ie.IE).RuleIDType, (*ie.IE).FailedRuleID, ie.NewFailedRuleID),
	ie.UserPlaneInactivityTimer:       of((*ie.IE).UserPlaneInactivityTimer, ie.NewUserPlaneInactivityTimer),
	ie.AggregatedURRID:                of((*ie.IE).AggregatedURRID, ie.NewAggregatedURRID),
	ie.Multiplier:                     pair((*ie.IE).ValueDigits, (*ie.IE).Exponent, ie.NewMultiplier),
	ie.SubsequentVolumeQuota:          fields((*ie.IE).SubsequentVolumeQuota),
	ie.SubsequentTimeQuota:            of((*ie.IE).SubsequentTimeQuota, ie.NewSubsequentTimeQuota),
	ie.RQI:                            of((*ie.IE).RQI, ie.NewRQI),
	ie.QFI:                            of((*ie.IE).QFI, ie.NewQFI),
	ie.QueryURRReference:              of((*ie.IE).QueryURRReference, ie.NewQueryURRReference),
	ie.TrafficEndpointID:              of((*ie.IE).TrafficEndpointID, ie.NewTrafficEndpointID),
	ie.MACAddress:                     fields((*ie.IE).MACAddress),
	ie.CTAG:                           fields((*ie.IE).CTAG),
	ie.STAG:                           fields((*ie.IE).STAG),
	ie.Ethertype:                      of((*ie.IE).Ethertype, ie.NewEthertype),
	ie.Proxying:                       octet((*ie.IE).Proxying),
	ie.EthernetFilterID:               of((*ie.IE).EthernetFilterID, ie.NewEthernetFilterID),
	ie.EthernetFilterProperties:       of((*ie.IE).EthernetFilterProperties, ie.NewEthernetFilterProperties),
	ie.SuggestedBufferingPacketsCount: of((*ie.IE).SuggestedBufferingPacketsCount, ie.NewSuggestedBufferingPacketsCount),
	ie.UserID:                         fields((*ie.IE).UserID),
	ie.EthernetPDUSessionInformation:  of((*ie.IE).EthernetPDUSessionInformation, ie.NewEthernetPDUSessionInformation),
	ie.MACAddressesDetected:           fields((*ie.IE).MACAddressesDetected),
	ie.MACAddressesRemoved:            fields((*ie.IE).MACAddressesRemoved),
	ie.EthernetInactivityTimer:        of((*ie.IE).EthernetInactivityTimer, ie.NewEthernetInactivityTimer),
	ie.EventQuota:                     of((*ie.IE).EventQuota, ie.NewEventQuota),
	ie.EventThreshold:                 of((*ie.IE).EventThreshold, ie.NewEventThreshold),
	ie.SubsequentEventQuota:           of((*ie.IE).SubsequentEventQuota, ie.NewSubsequentEventQuota),
	ie.SubsequentEventThreshold:       of((*ie.IE).SubsequentEventThreshold, ie.NewSubsequentEventThreshold),
	ie.TraceInformation:               fields((*ie.IE).TraceInformation),
	ie.FramedRoute:                    of((*ie.IE).FramedRoute, ie.NewFramedRoute),
	ie.FramedRouting:                  of((*ie.IE).FramedRouting, ie.NewFramedRouting),
	ie.FramedIPv6Route:                of((*ie.IE).FramedIPv6Route, ie.NewFramedIPv6Route),
	ie.EventTimeStamp:                 of((*ie.IE).EventTimeStamp, ie.NewEventTimeStamp),
	ie.AveragingWindow:                of((*ie.IE).AveragingWindow, ie.NewAveragingWindow),
	ie.PagingPolicyIndicator:          of((*ie.IE).PagingPolicyIndicator, ie.NewPagingPolicyIndicator),
	ie.APNDNN:                         of((*ie.IE).APNDNN, ie.NewAPNDNN),
	ie.TGPPInterfaceType:              of((*ie.IE).TGPPInterfaceType, ie.NewTGPPInterfaceType),
	ie.PFCPAUReqFlags:                 of((*ie.IE).PFCPAUReqFlags, ie.NewPFCPAUReqFlags),
	ie.PFCPSRReqFlags:                 of((*ie.IE).PFCPSRReqFlags, ie.NewPFCPSRReqFlags),
	ie.AlternativeSMFIPAddress:        fields((*ie.IE).AlternativeSMFIPAddress),
	ie.SMFSetID:                       of((*ie.IE).SMFSetIDString, ie.NewSMFSetID),
	ie.QuotaValidityTime:              of((*ie.IE).QuotaValidityTime, ie.NewQuotaValidityTime),
	ie.NumberOfReports:                of((*ie.IE).NumberOfReports, ie.NewNumberOfReports),
	ie.SourceIPAddress:                fields((*ie.IE).SourceIPAddress),
	ie.PacketRateStatus:               fields((*ie.IE).PacketRateStatus),
	ie.SRRID:                          of((*ie.IE).SRRID, ie.NewSRRID),
	ie.AveragePacketDelay:             of((*ie.IE).AveragePacketDelay, ie.NewAveragePacketDelay),
	ie.MinimumPacketDelay:             of((*ie.IE).MinimumPacketDelay, ie.NewMinimumPacketDelay),
	ie.MaximumPacketDelay:             of((*ie.IE).MaximumPacketDelay, ie.NewMaximumPacketDelay),
	ie.QoSReportTrigger:               octet((*ie.IE).QoSReportTrigger),
	ie.GTPUPathInterfaceType:          octet((*ie.IE).GTPUPathInterfaceType),
	ie.RequestedQoSMonitoring:         octet((*ie.IE).RequestedQoSMonitoring),
	ie.ReportingFrequency:             octet((*ie.IE).ReportingFrequency),
	ie.PacketDelayThresholds:          fields((*ie.IE).PacketDelayThresholds),
	ie.MinimumWaitTime:                of((*ie.IE).MinimumWaitTime, ie.NewMinimumWaitTime),
	ie.QoSMonitoringMeasurement:       fields((*ie.IE).QoSMonitoringMeasurement),
	ie.QERControlIndications:          octet((*ie.IE).QERControlIndications),
	ie.SNSSAI:                         pair((*ie.IE).SST, (*ie.IE).SD, ie.NewSNSSAI),
	ie.DataStatus:                     of((*ie.IE).DataStatus, ie.NewDataStatus),
}

// The numbers of IEs that go-pfcp hands out as octets, or of which it makes others.
var unread []string

func readIE(i *ie.IE) *ie.IE {
	if i.IsGrouped() {
		return ie.NewGroupedIE(i.Type, readIEs(i.ChildIEs)...)
	}
	found := readValue(i)
	if found == nil || !bytes.Equal(found.Payload, i.Payload) {
		unread = append(unread, fmt.Sprint(i.Type))
		return i
	}
	return found
}

// Nothing for an IE without a reader, and for one whose reader fails or panics.
func readValue(i *ie.IE) (found *ie.IE) {
	defer func() {
		if recover() != nil {
			found = nil
		}
	}()
	read, isKnown := readers[i.Type]
	if !isKnown {
		return nil
	}
	found, err := read(i)
	if err != nil {
		return nil
	}
	return found
}

func readIEs(ies []*ie.IE) []*ie.IE {
	var found []*ie.IE
	for _, i := range ies {
		found = append(found, readIE(i))
	}
	return found
}

// The message as go-pfcp knows it, then each of its IEs by its value.
func again(input []byte) (string, error) {
	parsed, err := message.Parse(input)
	if err != nil {
		return "", err
	}
	ordered := make([]byte, parsed.MarshalLen())
	if err := parsed.MarshalTo(ordered); err != nil {
		return "", err
	}
	header, err := message.ParseHeader(ordered)
	if err != nil {
		return "", err
	}
	ies, err := ie.ParseMultiIEs(header.Payload)
	if err != nil {
		return "", err
	}
	unread = nil
	header.Payload = nil
	for _, i := range readIEs(ies) {
		one, err := i.Marshal()
		if err != nil {
			return "", err
		}
		header.Payload = append(header.Payload, one...)
	}
	header.SetLength()
	found, err := header.Marshal()
	if err != nil {
		return "", err
	}
	if len(unread) == 0 {
		unread = []string{"-"}
	}
	return hex.EncodeToString(found) + " " + strings.Join(unread, " "), nil
}
