// Reads answers of the REST API by Confluent's SDK for Go, and prints what its models require and the answers lack.
//
// Arguments: the API's address, a token, the cluster, a topic, a group with a member, and a broker's id.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"

	sdk "github.com/confluentinc/kafka-rest-sdk-go/kafkarestv3"
)

// kept remembers the body of the last answer.
type kept struct {
	body []byte
	line string
}

func (last *kept) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	last.body, err = io.ReadAll(answer.Body)
	last.line = fmt.Sprintf("%d %s %s", answer.StatusCode, request.Method, request.URL.Path)
	answer.Body = io.NopCloser(bytes.NewReader(last.body))
	return answer, err
}

// missing returns the members that a model requires and the JSON lacks.
func missing(model reflect.Type, given any, path string) []string {
	for model.Kind() == reflect.Ptr {
		model = model.Elem()
	}
	found := []string{}
	switch given := given.(type) {
	case []any:
		for index, each := range given {
			found = append(found, missing(model.Elem(), each, fmt.Sprintf("%s[%d]", path, index))...)
		}
	case map[string]any:
		for index := 0; model.Kind() == reflect.Struct && index < model.NumField(); index++ {
			field := model.Field(index)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if value, there := given[name]; there {
				found = append(found, missing(field.Type, value, path+"."+name)...)
			} else if options == "" {
				found = append(found, path+"."+name)
			}
		}
	}
	return found
}

func main() {
	address, token, cluster, topic, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	number, _ := strconv.Atoi(os.Args[6])
	broker, partition := int32(number), int32(0)
	last := &kept{}
	settings := sdk.NewConfiguration()
	settings.BasePath = address
	settings.HTTPClient = &http.Client{Transport: last}
	client := sdk.NewAPIClient(settings)
	ctx := context.WithValue(context.Background(), sdk.ContextAccessToken, token)

	check := func(model any, _ *http.Response, err error) {
		var given any
		if err == nil {
			err = json.Unmarshal(last.body, &given)
		}
		lacks := missing(reflect.TypeOf(model), given, "")
		if err != nil || len(lacks) > 0 {
			fmt.Println(last.line, err, lacks, string(last.body))
		}
	}
	clusters, topics, configs, brokers := client.ClusterV3Api, client.TopicV3Api, client.ConfigsV3Api, client.BrokerV3Api
	partitions, groups, reassignments, replicas := client.PartitionV3Api, client.ConsumerGroupV3Api, client.PartitionApi, client.ReplicaApi
	check(clusters.ClustersGet(ctx))
	check(clusters.GetKafkaCluster(ctx, cluster))
	check(topics.ListKafkaTopics(ctx, cluster))
	check(topics.GetKafkaTopic(ctx, cluster, topic))
	check(configs.ListKafkaTopicConfigs(ctx, cluster, topic))
	check(configs.GetKafkaTopicConfig(ctx, cluster, topic, "retention.ms"))
	check(configs.ListKafkaDefaultTopicConfigs(ctx, cluster, topic))
	check(configs.ListKafkaAllTopicConfigs(ctx, cluster))
	check(configs.ListKafkaClusterConfigs(ctx, cluster))
	check(configs.ClustersClusterIdBrokersBrokerIdConfigsGet(ctx, cluster, broker))
	check(brokers.ClustersClusterIdBrokersGet(ctx, cluster))
	check(brokers.ClustersClusterIdBrokersBrokerIdGet(ctx, cluster, broker))
	check(brokers.ClustersClusterIdBrokersBrokerIdPartitionReplicasGet(ctx, cluster, broker))
	check(partitions.ListKafkaPartitions(ctx, cluster, topic))
	check(partitions.GetKafkaPartition(ctx, cluster, topic, partition))
	check(replicas.ClustersClusterIdTopicsTopicNamePartitionsPartitionIdReplicasGet(ctx, cluster, topic, partition))
	check(reassignments.ClustersClusterIdTopicsPartitionsReassignmentGet(ctx, cluster))
	check(groups.ListKafkaConsumerGroups(ctx, cluster))
	check(groups.GetKafkaConsumerGroup(ctx, cluster, group))
	check(groups.ListKafkaConsumers(ctx, cluster, group))
	check(groups.GetKafkaConsumerGroupLagSummary(ctx, cluster, group))
	check(groups.ListKafkaConsumerLags(ctx, cluster, group))
	check(partitions.GetKafkaConsumerLag(ctx, cluster, group, topic, partition))
	check(client.ACLV3Api.GetKafkaAcls(ctx, cluster, nil))
}
