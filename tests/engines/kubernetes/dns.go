package main

import (
	"context"
	"flag"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// runDNS answers queries for the addresses of headless services and of their pods, by the specification
// https://github.com/kubernetes/dns/blob/master/docs/specification.md. Any other name does not exist. The answer comes at
// once, because a program in a pod asks for each name in several search domains. Only returns if it fails.
func runDNS() error {
	kubeconfig := flag.String("kubeconfig", "", "the file with the cluster's address and the user")
	listen := flag.String("listen", "", "ADDRESS:PORT, for UDP")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", *listen)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	slices := factory.Discovery().V1().EndpointSlices().Lister() // registers its informer
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	query := make([]byte, 512)
	for {
		size, from, err := socket.ReadFrom(query)
		if err != nil {
			return err
		}
		if answer, ok := answerQuery(slices, query[:size]); ok {
			socket.WriteTo(answer, from)
		}
	}
}

// answerQuery returns false if the query is malformed.
func answerQuery(slices listers.EndpointSliceLister, query []byte) ([]byte, bool) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil, false
	}
	question, err := parser.Question()
	if err != nil {
		return nil, false
	}
	addresses := addressesOf(slices, strings.ToLower(question.Name.String()))
	answer := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question},
	}
	if len(addresses) == 0 {
		answer.RCode = dnsmessage.RCodeNameError
	} else if question.Type == dnsmessage.TypeA {
		for _, address := range addresses {
			answer.Answers = append(answer.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: address.As4()},
			})
		}
	}
	packed, err := answer.Pack()
	return packed, err == nil
}

// addressesOf returns the IPv4 addresses of a name SERVICE.NAMESPACE.svc.cluster.local. or
// HOSTNAME.SERVICE.NAMESPACE.svc.cluster.local., at most 20: they fit into a datagram.
func addressesOf(slices listers.EndpointSliceLister, name string) []netip.Addr {
	base, ok := strings.CutSuffix(name, ".svc.cluster.local.")
	parts := strings.Split(base, ".")
	hostname := ""
	if len(parts) == 3 {
		hostname, parts = parts[0], parts[1:]
	}
	if !ok || len(parts) != 2 {
		return nil
	}
	service := labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: parts[0]})
	found, _ := slices.EndpointSlices(parts[1]).List(service)
	var addresses []netip.Addr
	for _, slice := range found {
		for _, endpoint := range slice.Endpoints {
			ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
			if !ready || (hostname != "" && (endpoint.Hostname == nil || *endpoint.Hostname != hostname)) {
				continue
			}
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil && address.Is4() && len(addresses) < 20 {
					addresses = append(addresses, address)
				}
			}
		}
	}
	return addresses
}
