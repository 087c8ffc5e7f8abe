// franz_go_sr tells stories of franz-go's client of a schema registry, unchanged.
//
//	franz_go_sr URL PREFIX
//
// It prints a line of JSON for each story: its name, and the error if it failed. Subjects begin
// with PREFIX.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	person = `{"type":"record","name":"Person","fields":[{"name":"name","type":"string"}]}`
	wider  = `{"type":"record","name":"Person","fields":[{"name":"name","type":"string"},{"name":"age","type":"int"}]}`
)

type story struct {
	name string
	tell func(ctx context.Context, cl *sr.Client, subject string)
}

var stories = []story{
	{"schemas are created and found", created},
	{"schemas of three languages refer to others", referring},
	{"refusals have codes that the client knows", refusals},
	{"versions are deleted softly and then for good", deletions},
	{"levels, settings and modes are set and reset", settings},
	{"schemas come with ids while importing", importing},
	{"contexts keep schemas apart", contexts},
	{"values are encoded behind ids and indexes", serde},
}

func main() {
	url, prefix := os.Args[1], os.Args[2]
	for number, each := range stories {
		cl, err := sr.NewClient(sr.URLs(url))
		must(err)
		told := map[string]any{"story": each.name, "error": nil}
		if failure := tell(each, cl, fmt.Sprintf("%s-%d", prefix, number)); failure != nil {
			told["error"] = fmt.Sprint(failure)
		}
		line, err := json.Marshal(told)
		must(err)
		fmt.Println(string(line))
	}
}

func tell(each story, cl *sr.Client, subject string) (failure any) {
	defer func() { failure = recover() }()
	each.tell(context.Background(), cl, subject)
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func need[T any](value T, err error) T {
	must(err)
	return value
}

func same(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%s: %v is not %v", what, found, expected))
	}
}

func refused(err error, expected *sr.Error) {
	var response *sr.ResponseError
	if !errors.As(err, &response) {
		panic(fmt.Sprintf("%v is no refusal, and should be %v", err, expected))
	}
	same("refusal", response.SchemaError(), expected)
}

func avro(text string) sr.Schema { return sr.Schema{Schema: text} }

func created(ctx context.Context, cl *sr.Client, subject string) {
	made := need(cl.CreateSchema(ctx, subject, avro(person)))
	same("version", made.Version, 1)
	same("subject", made.Subject, subject)
	found := []sr.SubjectSchema{
		need(cl.LookupSchema(ctx, subject, avro(person))),
		need(cl.SchemaByVersion(ctx, subject, 1)),
		need(cl.SchemaByVersion(ctx, subject, -1)),
		need(cl.Schemas(ctx, subject))[0],
	}
	for _, each := range found {
		same("schema", each, made)
	}
	same("by id", need(cl.SchemaByID(ctx, made.ID)).Schema, person)
	same("by guid", need(cl.SchemaByGUID(ctx, made.GUID)).Schema.Schema, person)
	same("ids", need(cl.SchemaIDsByGUID(ctx, made.GUID))[0].ID, made.ID)
	same("text by id", need(cl.SchemaTextByID(ctx, made.ID)), person)
	same("text by version", need(cl.SchemaTextByVersion(ctx, subject, 1)), person)
	same("in subjects", slices.Contains(need(cl.SubjectsByID(ctx, made.ID)), subject), true)
	same("in versions", slices.Contains(need(cl.SchemaVersionsByID(ctx, made.ID)), sr.SubjectVersion{Subject: subject, Version: 1}), true)
	same("usage", slices.ContainsFunc(need(cl.SchemaUsagesByID(ctx, made.ID)), func(each sr.SubjectSchema) bool { return each.Subject == subject }), true)
	same("types", len(need(cl.SupportedTypes(ctx))), 3)
	prefixed := sr.WithParams(ctx, sr.SubjectPrefix(subject))
	same("prefix", need(cl.Subjects(prefixed)), []string{subject})
	same("all", len(need(cl.AllSchemas(ctx))) > 0, true)
}

func referring(ctx context.Context, cl *sr.Client, subject string) {
	for _, each := range []struct {
		language    sr.SchemaType
		name        string
		part, whole string
	}{
		{sr.TypeAvro, "Part", `{"type":"record","name":"Part","fields":[]}`, `{"type":"record","name":"Whole","fields":[{"name":"part","type":"Part"}]}`},
		{sr.TypeJSON, "part.json", `{"type":"object"}`, `{"type":"object","properties":{"part":{"$ref":"part.json"}}}`},
		{sr.TypeProtobuf, "part.proto", `syntax = "proto3"; message Part { int32 n = 1; }`, `syntax = "proto3"; import "part.proto"; message Whole { Part part = 1; }`},
	} {
		part, whole := fmt.Sprintf("%s-%s-part", subject, each.language), fmt.Sprintf("%s-%s", subject, each.language)
		need(cl.CreateSchema(ctx, part, sr.Schema{Schema: each.part, Type: each.language}))
		references := []sr.SchemaReference{{Name: each.name, Subject: part, Version: 1}}
		made := need(cl.CreateSchema(ctx, whole, sr.Schema{Schema: each.whole, Type: each.language, References: references}))
		same("references", made.References, references)
		same("referrers", need(cl.SchemaReferences(ctx, part, 1)), []sr.SubjectSchema{made})
		refused(cl.DeleteSchema(ctx, part, 1, sr.SoftDelete), sr.ErrReferenceExists)
	}
}

func refusals(ctx context.Context, cl *sr.Client, subject string) {
	need(cl.CreateSchema(ctx, subject, avro(person)))
	_, err := cl.CreateSchema(ctx, subject, avro(wider))
	refused(err, sr.ErrIncompatibleSchema)
	_, err = cl.CreateSchema(ctx, subject, avro("{"))
	refused(err, sr.ErrInvalidSchema)
	_, err = cl.SubjectVersions(ctx, subject+"-none")
	refused(err, sr.ErrSubjectNotFound)
	_, err = cl.SchemaByVersion(ctx, subject, 7)
	refused(err, sr.ErrVersionNotFound)
	_, err = cl.SchemaByID(ctx, 999999)
	refused(err, sr.ErrSchemaNotFound)
	_, err = cl.LookupSchema(ctx, subject, avro(wider))
	refused(err, sr.ErrSchemaNotFound)
	refused(cl.Compatibility(ctx, subject)[0].Err, sr.ErrSubjectLevelCompatibilityNotConfigured)
	refused(cl.Mode(ctx, subject)[0].Err, sr.ErrSubjectLevelModeNotConfigured)
	rules := &sr.SchemaRuleSet{DomainRules: []sr.SchemaRule{{Name: "a b", Type: "CEL"}}}
	_, err = cl.CreateSchema(ctx, subject, sr.Schema{Schema: person, SchemaRuleSet: rules})
	refused(err, sr.ErrInvalidRuleset)
	same("compatible", need(cl.CheckCompatibility(ctx, subject, 1, avro(person))).Is, true)
	judged := need(cl.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, -2, avro(wider)))
	same("incompatible", judged.Is, false)
	same("reason", strings.Contains(judged.Messages[0], "READER_FIELD_MISSING_DEFAULT_VALUE"), true)
}

func deletions(ctx context.Context, cl *sr.Client, subject string) {
	need(cl.CreateSchema(ctx, subject, avro(person)))
	need(cl.CreateSchema(ctx, subject, avro(`{"type":"record","name":"Person","fields":[]}`)))
	refused(cl.DeleteSchema(ctx, subject, 1, sr.HardDelete), sr.ErrSchemaVersionNotSoftDeleted)
	must(cl.DeleteSchema(ctx, subject, 1, sr.SoftDelete))
	refused(cl.DeleteSchema(ctx, subject, 1, sr.SoftDelete), sr.ErrSchemaVersionSoftDeleted)
	same("live", need(cl.SubjectVersions(ctx, subject)), []int{2})
	same("all", need(cl.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), subject)), []int{1, 2})
	same("deleted", need(cl.SubjectVersions(sr.WithParams(ctx, sr.DeletedOnly), subject)), []int{1})
	_, err := cl.DeleteSubject(ctx, subject, sr.HardDelete)
	refused(err, sr.ErrSubjectNotSoftDeleted)
	same("soft", need(cl.DeleteSubject(ctx, subject, sr.SoftDelete)), []int{2})
	_, err = cl.DeleteSubject(ctx, subject, sr.SoftDelete)
	refused(err, sr.ErrSubjectSoftDeleted)
	same("hard", need(cl.DeleteSubject(ctx, subject, sr.HardDelete)), []int{1, 2})
}

func settings(ctx context.Context, cl *sr.Client, subject string) {
	asked := sr.SetCompatibility{
		Level:           sr.CompatFullTransitive,
		Normalize:       true,
		Group:           "major",
		DefaultMetadata: &sr.SchemaMetadata{Properties: map[string]string{"owner": "ann"}},
		OverrideRuleSet: &sr.SchemaRuleSet{DomainRules: []sr.SchemaRule{{Name: "check", Type: "CEL", Expr: "true", Mode: sr.SchemaRuleModeWrite}}},
	}
	must(cl.SetCompatibility(ctx, asked, subject)[0].Err)
	found := cl.Compatibility(ctx, subject)[0]
	must(found.Err)
	same("level", found.Level, sr.CompatFullTransitive)
	same("group", found.Group, "major")
	same("normalize", found.Normalize, true)
	same("metadata", found.DefaultMetadata, asked.DefaultMetadata)
	made := need(cl.CreateSchema(ctx, subject, avro(person)))
	same("owner", made.SchemaMetadata.Properties, map[string]string{"owner": "ann"})
	same("rule", made.SchemaRuleSet.DomainRules[0].Name, "check")
	must(cl.ResetCompatibility(ctx, subject)[0].Err)
	same("global", cl.Compatibility(ctx)[0].Level, sr.CompatBackward)
	inherited := cl.Compatibility(sr.WithParams(ctx, sr.DefaultToGlobal), subject)[0]
	same("inherited", inherited.Level, sr.CompatBackward)
	must(cl.SetMode(ctx, sr.ModeReadOnly, subject)[0].Err)
	same("mode", cl.Mode(ctx, subject)[0].Mode, sr.ModeReadOnly)
	_, err := cl.CreateSchema(ctx, subject, avro(`"string"`))
	refused(err, sr.ErrOperationNotPermitted)
	must(cl.ResetMode(ctx, subject)[0].Err)
	same("global mode", cl.Mode(ctx)[0].Mode, sr.ModeReadWrite)
}

func importing(ctx context.Context, cl *sr.Client, subject string) {
	must(cl.SetMode(ctx, sr.ModeImport, subject)[0].Err)
	made := need(cl.CreateSchemaWithIDAndVersion(ctx, subject, avro(`{"type":"record","name":"Imported","fields":[]}`), 77001, 5))
	same("id", made.ID, 77001)
	same("version", made.Version, 5)
	_, err := cl.CreateSchemaWithIDAndVersion(ctx, subject, avro(`"string"`), 77001, 6)
	refused(err, sr.ErrOperationNotPermitted)
	must(cl.ResetMode(ctx, subject)[0].Err)
}

func contexts(ctx context.Context, cl *sr.Client, subject string) {
	inside := sr.InContext(ctx, "."+subject)
	made := need(cl.CreateSchema(inside, "orders", avro(`{"type":"record","name":"Inside","fields":[]}`)))
	same("subject", made.Subject, fmt.Sprintf(":.%s:orders", subject))
	same("by id", need(cl.SchemaByID(inside, made.ID)).Schema, made.Schema.Schema)
	same("subjects", need(cl.Subjects(inside)), []string{made.Subject})
	same("contexts", slices.Contains(need(cl.Contexts(ctx)), "."+subject), true)
	refused(cl.DeleteContext(ctx, "."+subject), sr.ErrContextNotEmpty)
	need(cl.DeleteSubject(inside, "orders", sr.SoftDelete))
	need(cl.DeleteSubject(inside, "orders", sr.HardDelete))
	must(cl.DeleteContext(ctx, "."+subject))
	same("contexts", slices.Contains(need(cl.Contexts(ctx)), "."+subject), false)
}

func serde(ctx context.Context, cl *sr.Client, subject string) {
	type order struct {
		ID int `json:"id"`
	}
	text := `{"type":"object","properties":{"id":{"type":"integer"}}}`
	made := need(cl.CreateSchema(ctx, subject, sr.Schema{Schema: text, Type: sr.TypeJSON}))
	var serde sr.Serde
	serde.Register(made.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal), sr.Index(0, 1))
	data := need(serde.Encode(order{ID: 7}))
	id, rest, err := serde.DecodeID(data)
	must(err)
	same("type", need(cl.SchemaByID(ctx, id)).Type, sr.TypeJSON)
	index, payload, err := serde.DecodeIndex(rest, 2)
	must(err)
	same("index", index, []int{0, 1})
	same("payload", string(payload), `{"id":7}`)
	var found order
	must(serde.Decode(data, &found))
	same("value", found, order{ID: 7})
}
